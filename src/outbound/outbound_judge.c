/* outbound_judge.c - theory of operation
 *
 * Private addresses and the like are refused whatever rules say; then the rules for addresses are
 * asked, unless they were asked before. An address of this machine itself is refused, too, even if
 * it is public, or in a block that the operator opened: services of the machine would take the
 * connection for a local one. Only loopback can be opened as a block; any other address of the
 * machine must be named by itself.
 *
 * Whether an address is one of this machine the kernel knows: for such a destination it chooses the
 * same address as source. A connected UDP socket shows it without sending a packet. */
#include "outbound_judge.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static bool deny(const struct outbound_judge *j, const struct ip *ip, const char *what,
		 struct err *ret_why)
{
	char text[IP_TEXT_MAX];

	ip_format(ip, text);
	if (j->host[0] != '\0')
		(void)err_set(ret_why, ERR_DENIED, "%s resolves to %s, %s", j->host, text, what);
	else
		(void)err_set(ret_why, ERR_DENIED, "%s is %s", text, what);
	return false;
}

/* Is the socket's own address the destination? */
static bool is_own(int fd, const struct ip *ip)
{
	struct sockaddr_storage at;
	socklen_t n = sizeof(at);
	uint16_t port;
	struct ip own;

	return getsockname(fd, (struct sockaddr *)&at, &n) == 0 &&
	       ip_of_sockaddr((const struct sockaddr *)&at, &own, &port) == 0 && ip_same(&own, ip);
}

static bool is_this_machine(const struct ip *ip)
{
	struct sockaddr_storage to;
	socklen_t n = ip_to_sockaddr(ip, 53, &to);
	OWN_FD fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)&to, n) == 0 && is_own(fd, ip);
}

static bool may_be_own(const struct outbound_judge *j, const struct ip *ip)
{
	return ip_kind(ip) == IP_LOOPBACK || policy_names(j->policy, ip);
}

/* Do the rules for addresses allow it? */
static bool fits_rules(const struct outbound_judge *j, const struct ip *ip, struct err *ret_why)
{
	const struct policy_target to = { .host = j->host[0] != '\0' ? j->host : NULL,
					  .port = j->port };
	const struct policy_rule *rule = NULL;
	char what[64];

	if (j->below == POLICY_NODE || policy_resolved(j->policy, &to, ip, &rule) ||
	    rule->layer >= j->below)
		return true;
	(void)snprintf(what, sizeof(what), "which %.40s denies", rule->name);
	return deny(j, ip, what, ret_why);
}

bool outbound_judge_all(const struct outbound_judge *j, const struct ip *ips, size_t n,
			struct err *ret_why)
{
	for (size_t i = 0; i < n; i++)
		if (!fits_rules(j, &ips[i], ret_why))
			return false;
	return true;
}

bool outbound_judge(const struct outbound_judge *j, const struct ip *ip, struct err *ret_why)
{
	enum ip_kind kind = ip_kind(ip);
	const char *name = ip_kind_name(kind);
	char what[128];

	if (!policy_reachable(j->policy, ip)) {
		(void)snprintf(what, sizeof(what), "%s %s address%s",
			       strchr("aeiou", name[0]) ? "an" : "a", name,
			       kind == IP_PRIVATE || kind == IP_RESERVED
				       ? "; the operator can allow it: \"private\" in egress_policy"
				       : "");
		return deny(j, ip, what, ret_why);
	}
	if (!fits_rules(j, ip, ret_why))
		return false;
	return may_be_own(j, ip) || !is_this_machine(ip) ||
	       deny(j, ip, "an address of this node itself", ret_why);
}

bool outbound_judge_made(const struct outbound_judge *j, int fd, const struct ip *ip,
			 struct err *ret_why)
{
	return may_be_own(j, ip) || !is_own(fd, ip) ||
	       deny(j, ip, "an address of this node itself", ret_why);
}
