/* secret_audit.c - see secret_audit.h. */
#include "daemon/secrets/secret_audit.h"

#include "daemon/audit/audit.h"
#include "daemon/node/core.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/session/session_uses.h"
#include "lib/base/log.h"

/* A use of the same kind is on record once an hour, with the number of uses in between. */
int secret_audit_used(struct session *s, const char *name, const char *as, const char *host,
		      const char *execution, struct err *e)
{
	const struct audit_record record = { .tenant = session_row(s)->tenant,
					     .session = session_row(s)->id,
					     .execution = execution,
					     .type = "secret.used" };
	/* An execution that gets a value is another use. A host that gets it again is none. */
	const char *const what[] = { as, name, host[0] == '\0' ? execution : host };
	uint64_t more;

	if (!session_uses_first(s, SESSION_USES_SECRETS, what, &more))
		return 0;
	return audit_append(core_audit(session_core(s)), &record, e,
			    "name\t%s\nas\t%s\n?host\t%s\nunrecorded\t%llu\n", name, as, host,
			    (unsigned long long)more);
}

/* A failure is logged, and the program still gets its secrets. */
void secret_audit_given(struct session *s, const char *lines, const char *execution)
{
	struct secret_spec l;
	struct err e;

	while (lines != NULL && secret_spec_next(&lines, &l))
		if (l.way != SECRET_BROKER &&
		    secret_audit_used(s, l.name, secret_spec_way(l.way), "", execution, &e) < 0)
			log_error("a record of the audit log could not be written",
				  "session_id=%s type=secret.used error=%s", session_row(s)->id,
				  e.msg);
}
