and d.id >= ? and (d.id > ? or d.place > ?)
