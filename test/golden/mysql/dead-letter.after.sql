and d.id > ?
