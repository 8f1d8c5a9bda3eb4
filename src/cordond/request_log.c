#include "request_log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "server.h"
#include "log.h"
#include "request.h"

/* Clients without a key can cause as many lines as they like: of each kind so many a second are
 * written, and the next line has the number of those left out. */
static bool may_log(const struct request *about, int status, unsigned long long *ret_dropped)
{
	static struct log_limit limits[] = {
		{ .burst = 200, .interval_ms = 1000 }, /* answered, at a sandbox */
		{ .burst = 50, .interval_ms = 1000 },  /* answered */
		{ .burst = 20, .interval_ms = 1000 },  /* 401, 403 */
		{ .burst = 20, .interval_ms = 1000 },  /* 404 */
		{ .burst = 20, .interval_ms = 1000 },  /* other 4xx */
		{ .burst = 20, .interval_ms = 1000 },  /* 5xx, and dropped connections */
	};
	unsigned kind = 5;

	*ret_dropped = 0;
	if (about != NULL && about->grant.key_id[0] != '\0')
		return true;
	if (status == 401 || status == 403)
		kind = 2;
	else if (status == 404)
		kind = 3;
	else if (status >= 400 && status < 500)
		kind = 4;
	else if (status >= 100 && status < 400)
		kind = about != NULL && about->tenant != NULL ? 0 : 1;
	return log_limit(&limits[kind], ret_dropped);
}

void request_log(const struct exchange *x, int status, uint64_t bytes, uint64_t ns)
{
	const struct http1_request *r = exchange_request(x);
	const struct request *about = request_of(x); /* NULL: no handler saw it */
	char method[16], path[512];
	unsigned long long dropped;

	if (!log_wants(LOG_LEVEL_INFO) || !may_log(about, status, &dropped))
		return;
	(void)snprintf(method, sizeof(method), "%.*s", (int)r->method_name.n, r->method_name.p);
	(void)snprintf(path, sizeof(path), "%.*s", (int)(r->path.n < 511 ? r->path.n : 511),
		       r->path.p);
	log_info("request",
		 "request_id=%s session_id=%s method=%s path=%s status=%d bytes=%llu us=%llu "
		 "peer=%s left_out=%llu",
		 exchange_id(x), about == NULL ? "" : about->session_id, method, path, status,
		 (unsigned long long)bytes, (unsigned long long)(ns / 1000), exchange_peer(x),
		 dropped);
}
