/* session_spec.h - turns a client's request into a row of the store, and a row into a request to
 * the keeper. Called when a session is created, and by the pool for its own cells. */
#pragma once

#include "daemon/session/session.h"

struct keeper_create;
struct template_stack;
struct template_version;

/* Apply the template v, and defaults and maxima of the configuration and the tenant, and fill in
 * the settings of the row. The texts of the spec are copied into *ret_texts, which the row points
 * into. The caller frees them. */
int session_spec_check(const struct core *c, const struct template_version *v,
		       const struct session_spec *spec, struct store_session *row, char **ret_texts,
		       struct err *e) MUST_USE;

/* Are these lines mounts (see session.h) whose sources are below the roots of this server? */
int session_spec_check_mounts(const struct core *c, const char *lines, struct err *e) MUST_USE;

/* Collect the layers of a session: those of its template, then its own (NULL: none), which begin at
 * *ret_own (may be NULL). ERR_NOT_FOUND as below. */
int session_spec_stack(const struct template_version *v, const struct store_session *row,
		       const struct template_stack *own, struct template_stack *ret,
		       size_t *ret_own, struct err *e) MUST_USE;

/* Compose the keeper request that makes a cell of that template for the row. own: layers above the
 * template's, NULL: none. ERR_NOT_FOUND if v is NULL: the template of a session of an earlier
 * daemon may be missing. */
int session_spec_plan(const struct core *c, const struct template_version *v,
		      const struct store_session *row, const struct template_stack *own,
		      struct keeper_create *ret, struct err *e) MUST_USE;

/* Can this machine pause a session as its row says? ERR_UNSUPPORTED. */
int session_spec_check_pause(const struct core *c, const struct store_session *row,
			     struct err *e) MUST_USE;
