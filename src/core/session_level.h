/* session_level.h - what the isolation level of a session (cell_level.h) changes of its row and of
 * the request to the keeper. Called by session_spec.c and session_create.c.
 *
 * A level is never replaced by another: what it cannot do is refused, with the member that asked
 * for it. The limits of a session are those of its programs; what an engine needs beside them is
 * added to the cell's, and is not shown. */
#pragma once

#include "session_spec.h"

/* Sets row->level; refuses what the level, or this server at that level, cannot do. */
int session_level_choose(const struct core *c, const struct template_version *v,
			 const struct session_spec *spec, struct store_session *row,
			 struct err *e) MUST_USE;

/* After profile and root were set: of a snapshot with memory they are the snapshot's. */
void session_level_inherit(const struct template_version *v, struct store_session *row);

/* After the limits were set: are they possible at the level? Rounds up what a guest has in units.
 */
int session_level_limits(struct store_session *row, struct err *e) MUST_USE;

/* After what the tenant and the key may have has narrowed them: a snapshot with memory fits only a
 * session of the same size. */
int session_level_check_memory(const struct template_version *v, const struct store_session *row,
			       struct err *e) MUST_USE;

/* The memory of a guest is limited by its engine, also where cells cannot be. */
bool session_level_has_own_memory(uint32_t level);

/* Changes a request for the level container into one for the row's level. */
void session_level_plan(const struct core *c, const struct store_session *row,
			struct keeper_create *plan);
