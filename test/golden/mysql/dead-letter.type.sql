and cast(d.type as binary) = ?
