update `txbox_removals` set discarded = discarded + ? where number = ?
