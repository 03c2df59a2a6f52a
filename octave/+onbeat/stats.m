function s = stats (cycles)
  % Returns how many records were received and lost, and how many are pending.
  s = struct ('received', cycles.received (), 'lost', cycles.lost (), 'pending', cycles.pending ());
end
