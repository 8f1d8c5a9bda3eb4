/* audit_admin.h - cordon audit ls, show, head, export, erase and prune: the audit log by the
 * server's routes. */
#pragma once

#include "cmd/client/args.h"

struct audit_admin {
	const char *tenant, *epoch;	    /* whose log. NULL: the key's own, the last one */
	const char *session, *type, *after; /* ls, erase */
	const char *on_behalf, *keep, *out; /* erase; prune; export */
	const struct option_list *values;   /* erase */
	bool follow;			    /* ls, export */
	const char *seq;		    /* show, erase. NULL: not given */
};

/* Each returns the exit code. */
int audit_admin_ls(const struct verb *v, const struct args_common *o, const struct audit_admin *f);
int audit_admin_show(const struct verb *v, const struct args_common *o,
		     const struct audit_admin *f);
int audit_admin_head(const struct verb *v, const struct args_common *o,
		     const struct audit_admin *f);
int audit_admin_export(const struct verb *v, const struct args_common *o,
		       const struct audit_admin *f);
int audit_admin_erase(const struct verb *v, const struct args_common *o,
		      const struct audit_admin *f);
int audit_admin_prune(const struct verb *v, const struct args_common *o,
		      const struct audit_admin *f);
