select cast(last_insert_id() as char) as number
