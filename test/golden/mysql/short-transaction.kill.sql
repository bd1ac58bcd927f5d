kill 42
