/* session_level.h - the effects of a session's isolation level (cell_level.h) on its row and on the
 * request to the keeper. Called by session_spec.c and session_create.c.
 *
 * A level is never replaced by another: a request beyond its abilities is refused, with the member
 * that asked for it. The limits of a session are those of its programs. The engine's own need is
 * added to the cell's limits, and is not shown. */
#pragma once

#include "daemon/session/session_spec.h"

/* Set row->level. Refuse requests that the level, or this server at that level, cannot meet. */
int session_level_choose(const struct core *c, const struct template_version *v,
			 const struct session_spec *spec, struct store_session *row,
			 struct err *e) MUST_USE;

/* After profile and root were set: of a snapshot with memory they are the snapshot's. */
void session_level_inherit(const struct template_version *v, struct store_session *row);

/* After the limits were set: are they possible at the level? Rounds up a guest's resources to its
 * units.
 */
int session_level_limits(struct store_session *row, struct err *e) MUST_USE;

/* After the allowances of tenant and key have narrowed them: a snapshot with memory fits only a
 * session of the same size. */
int session_level_check_memory(const struct template_version *v, const struct store_session *row,
			       struct err *e) MUST_USE;

/* The memory of a guest is limited by its engine, also where cells cannot be. */
bool session_level_has_own_memory(uint32_t level);

/* Change a request for the level container into one for the row's level. */
void session_level_plan(const struct core *c, const struct store_session *row,
			struct keeper_create *plan);
