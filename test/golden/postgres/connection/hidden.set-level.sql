set transaction isolation level serializable
