/* pool_boot.h - the start command of a template in a cell of its pool, before a session exists:
 * template_pools.c gives these functions to the pool. session_lifecycle.c claims the program.
 *
 * The program has the environment of the template only, no network and no secrets. Its output stays
 * in its pipes. Nearly full pipes lose their oldest bytes. It is held by PID 1, as those of
 * sessions are: when the cell is claimed it becomes an execution, in the transaction that writes
 * the session. If this daemon dies before, the next one ends the cell. */
#pragma once

#include "daemon/template/templates_private.h"

struct execution;
struct live_cell;
struct session;

/* Does the template have commands that its cells run in advance? */
bool pool_boot_is_needed(const struct store_template *t);

/* For struct pool_source. arg is a struct level_pool. */
void pool_boot_prepare(void *arg, struct pool *p, struct live_cell *c);
void pool_boot_unprepare(void *arg, struct live_cell *c);

/* The session has got the cell. Write the record of the program inside the caller's transaction.
 * *ret is NULL without a program. If the transaction fails, the caller frees it (execution_free()).
 */
int pool_boot_record(struct session *s, struct execution **ret, struct err *e) MUST_USE;
/* The transaction was committed: the execution gets the program. x may be NULL. */
void pool_boot_hand_over(struct session *s, struct execution *x);
