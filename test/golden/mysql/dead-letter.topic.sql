and cast(d.topic as binary) = ?
