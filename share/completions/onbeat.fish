complete --keep-order --exclusive --command onbeat --arguments "(ONBEAT_COMPLETE=fish onbeat -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
