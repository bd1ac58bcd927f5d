listen "txbox_outbox_1"
