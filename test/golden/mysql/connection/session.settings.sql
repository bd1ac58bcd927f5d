select cast(@@character_set_client as char) as client, cast(@@character_set_connection as char) as connection,
  cast(@@completion_type as char) as completion
