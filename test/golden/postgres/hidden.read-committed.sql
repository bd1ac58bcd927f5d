isolation level read committed
