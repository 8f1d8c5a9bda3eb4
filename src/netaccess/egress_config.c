/* egress_config.c - see egress_config.h. */
#include "egress_config.h"

#include "net_usage.h"
#include "secret_egress.h"

#define SECRETS_COST 4 /* a byte of a secret is looked for in many encodings */

int egress_config_write(struct session *s, const char *policy, struct json *j, size_t *ret_cost,
			struct err *e)
{
	json_open(j, NULL, '{');
	if (policy != NULL) {
		json_text(j, "tenant", session_row(s)->tenant);
		if (net_usage_write(s, j, e) < 0)
			return -1;
		json_raw(j, "policy", policy);
	}
	*ret_cost = j->len;
	if (secret_egress_write(s, policy, j, e) < 0)
		return -1;
	*ret_cost += SECRETS_COST * (j->len - *ret_cost);
	json_close(j, '}');
	if (!json_ok(j))
		return err_set(e, ERR_LIMIT, "policy and secrets are too large together");
	return 0;
}
