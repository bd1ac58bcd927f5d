and d.place > ?
