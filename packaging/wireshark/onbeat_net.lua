-- Decodes the packets of onbeat (docs/net.md) in Wireshark and tshark:
--   tshark -X lua_script:onbeat_net.lua -i eth0 -f 'udp port 7470'
-- or copy it to the folder of personal Lua plugins (Help > About Wireshark > Folders).

local onbeat = Proto("onbeat", "onbeat packets")

local kinds = {
  [1] = "echo request", [2] = "echo answer", [3] = "actuator command", [4] = "actuator feedback",
  [5] = "I/O command", [6] = "I/O feedback", [7] = "edge command", [8] = "edge report",
}
local modes = { [0] = "off", [1] = "position", [2] = "velocity", [3] = "torque" }

-- Of each field: constructor, name, label, offset, size; then a table of values, or how many follow one another.
local function fields_of(rows, first)
  local list = {}
  for _, row in ipairs(rows) do
    local make, name, label, offset, size, more = row[1], row[2], row[3], row[4], row[5], row[6]
    local field
    if type(more) == "table" then
      field = make("onbeat." .. name, label, base.DEC, more)
    else
      field = make("onbeat." .. name, label)
    end
    for place = 0, (type(more) == "number" and more or 1) - 1 do
      table.insert(list, { field = field, offset = first + offset + place * size, size = size, again = place > 0 })
    end
  end
  return list
end

local P = ProtoField
local header = fields_of({
  { P.uint8, "version", "Version", 4, 1 },
  { P.uint8, "kind", "Kind", 5, 1, kinds },
  { P.uint16, "device", "Device", 6, 2 },
  { P.uint64, "sequence", "Sequence", 8, 8 },
  { P.uint64, "sent_ns", "Sent (ns)", 16, 8 },
  { P.uint64, "received_ns", "Received by the device (ns)", 24, 8 },
  { P.uint64, "answered_ns", "Answered by the device (ns)", 32, 8 },
  { P.uint32, "session", "Session", 40, 4 },
  { P.uint32, "lifetime_us", "Lifetime (us)", 44, 4 },
  { P.uint16, "length", "Length", 48, 2 },
}, 0)

local bodies = {
  [3] = fields_of({
    { P.uint8, "command.mode", "Mode", 0, 1, modes },
    { P.double, "command.position_rad", "Position (rad)", 8, 8 },
    { P.float, "command.velocity_rad_s", "Velocity (rad/s)", 16, 4 },
    { P.float, "command.torque_nm", "Torque (Nm)", 20, 4 },
    { P.float, "command.most_velocity_rad_s", "Largest velocity (rad/s)", 24, 4 },
    { P.float, "command.most_torque_nm", "Largest torque (Nm)", 28, 4 },
  }, 56),
  [4] = fields_of({
    { P.uint8, "actuator.mode", "Mode", 0, 1, modes },
    { P.uint8, "actuator.state", "State", 1, 1 },
    { P.uint16, "actuator.fault", "Fault", 2, 2 },
    { P.uint32, "actuator.command_age_us", "Age of the command (us)", 4, 4 },
    { P.uint64, "actuator.command_sequence", "Sequence of the command", 8, 8 },
    { P.double, "actuator.position_rad", "Position (rad)", 16, 8 },
    { P.double, "actuator.target_rad", "Target (rad)", 24, 8 },
    { P.float, "actuator.velocity_rad_s", "Velocity (rad/s)", 32, 4 },
    { P.float, "actuator.torque_nm", "Torque (Nm)", 36, 4 },
    { P.float, "actuator.current_a", "Motor current (A)", 40, 4 },
    { P.float, "actuator.supply_v", "Supply (V)", 44, 4 },
    { P.float, "actuator.temperatures_c", "Temperatures of motor and board (C)", 48, 4, 2 },
    { P.float, "actuator.gyro_rad_s", "Angular velocity of the housing (rad/s)", 56, 4, 3 },
    { P.float, "actuator.acceleration_m_s2", "Acceleration of the housing (m/s2)", 68, 4, 3 },
    { P.uint64, "actuator.loop_cycles", "Cycles of the local loop", 80, 8 },
    { P.uint32, "actuator.loop_period_ns", "Period of the local loop (ns)", 88, 4 },
    { P.uint32, "actuator.loop_latency_ns", "Largest wake-up latency (ns)", 92, 4 },
  }, 56),
  [5] = fields_of({
    { P.uint32, "outputs.digital_mask", "Digital outputs to change", 0, 4 },
    { P.uint32, "outputs.digital", "Levels", 4, 4 },
    { P.uint32, "outputs.pwm_mask", "PWM outputs to change", 8, 4 },
    { P.float, "outputs.pwm", "Duty cycles", 16, 4, 8 },
  }, 56),
  [6] = fields_of({
    { P.uint32, "inputs.digital_in", "Digital inputs", 0, 4 },
    { P.uint32, "inputs.digital_out", "Digital outputs", 4, 4 },
    { P.uint64, "inputs.changed_ns", "Last changes (ns)", 8, 8, 8 },
    { P.uint64, "inputs.sampled_ns", "Sampled (ns)", 72, 8 },
    { P.float, "inputs.analogue_v", "Analogue inputs (V)", 80, 4, 16 },
    { P.float, "inputs.pwm", "Duty cycles", 144, 4, 8 },
    { P.uint64, "inputs.command_sequence", "Sequence of the command", 176, 8 },
    { P.uint32, "inputs.command_age_us", "Age of the command (us)", 184, 4 },
  }, 56),
  [7] = fields_of({
    { P.uint64, "edge.edge_ns", "Edge (ns)", 0, 8 },
    { P.uint64, "edge.release_ns", "End of the sender's delay (ns)", 8, 8 },
    { P.uint32, "edge.delay_ns", "Delay at the receiver (ns)", 16, 4 },
  }, 56),
  [8] = fields_of({
    { P.uint64, "report.edge_ns", "Edge (ns)", 0, 8 },
    { P.uint64, "report.release_ns", "End of the sender's delay (ns)", 8, 8 },
    { P.uint32, "report.delay_ns", "Delay at the receiver (ns)", 16, 4 },
    { P.uint32, "report.state", "State", 20, 4 },
    { P.uint64, "report.taken_ns", "Taken up (ns)", 24, 8 },
    { P.uint64, "report.written_ns", "Written (ns)", 32, 8 },
  }, 56),
}
local body_bytes = { [3] = 32, [4] = 144, [5] = 48, [6] = 192, [7] = 24, [8] = 48 }

local all = {}
for _, list in ipairs({ header, bodies[3], bodies[4], bodies[5], bodies[6], bodies[7], bodies[8] }) do
  for _, entry in ipairs(list) do
    if not entry.again then
      table.insert(all, entry.field)
    end
  end
end
onbeat.fields = all

function onbeat.dissector(buffer, pinfo, tree)
  if buffer:len() < 56 or buffer(0, 4):string() ~= "ONBT" or buffer(4, 1):uint() ~= 1 then
    return 0
  end
  local kind = buffer(5, 1):uint()
  local name = kinds[kind]
  if not name or buffer(48, 2):le_uint() ~= buffer:len() then
    return 0
  end
  if body_bytes[kind] and buffer:len() ~= 56 + body_bytes[kind] then
    return 0
  end

  pinfo.cols.protocol = "ONBEAT"
  local device, sequence = buffer(6, 2):le_uint(), buffer(8, 8):le_uint64()
  pinfo.cols.info = string.format("%s, device %d, sequence %s", name, device, tostring(sequence))
  local below = tree:add(onbeat, buffer(), "onbeat " .. name)
  for _, list in ipairs({ header, bodies[kind] or {} }) do
    for _, entry in ipairs(list) do
      below:add_le(entry.field, buffer(entry.offset, entry.size))
    end
  end
  return buffer:len()
end

DissectorTable.get("udp.port"):add("7470-7509", onbeat)
onbeat:register_heuristic("udp", function(buffer, pinfo, tree)
  return onbeat.dissector(buffer, pinfo, tree) > 0
end)
