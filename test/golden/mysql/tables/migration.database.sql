select cast(database() as binary) as name
