and d.id in (?)
