select r.type, r.consumer from `txbox_subscriptions` as r force index (primary) where r.type in (?)
