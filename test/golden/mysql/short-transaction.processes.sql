show full processlist
