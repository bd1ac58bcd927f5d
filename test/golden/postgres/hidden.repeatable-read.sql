isolation level repeatable read
