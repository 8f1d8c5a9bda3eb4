/* session_storage.h - what a client asks of a session's file system: in memory or on disk, which
 * size, how fast, a read-only root directory, kept over its cells or not. Called by session_spec.c
 * when a session is created. */
#pragma once

#include "session.h"

/* Checks it and fills in storage, read_only, keep_ms, limits.disk_bytes, .inodes, .read_bps and
 * .write_bps, and the times of a persistent session. */
int session_storage_check(const struct core *c, const struct session_spec *spec,
			  struct store_session *row, struct err *e) MUST_USE;

/* ERR_UNSUPPORTED: the machine cannot keep these rates. Before every cell, as the machine may have
 * been started otherwise since the session was created. 0: no limit. */
int session_storage_check_rates(const struct core *c, uint64_t read_bps, uint64_t write_bps,
				struct err *e) MUST_USE;

/* The flags of its cell, CELL_*. */
uint32_t session_storage_flags(const struct store_session *row);
