select (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    pg_catalog.pg_relation_filenode('"txbox".local_outbox'::regclass)::text || '/' || pg_catalog.pg_relation_filenode('"txbox".local_outbox_seq'::regclass)::text as server, case when pg_catalog.has_sequence_privilege('"txbox".local_outbox_seq', 'select')
    then coalesce(pg_catalog.pg_sequence_last_value('"txbox".local_outbox_seq'::regclass), 0::bigint) end::text as last
