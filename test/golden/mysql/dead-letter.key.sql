and cast(d.`key` as binary) = ?
