/* netns.c - sets up the network of a cell: loopback only, every address local, and packet rules
 * that redirect connections to one socket.
 *
 * Called by cell_enter.c in the cell's new network namespace, by PID 1 while it has its
 * capabilities there. Sends fixed messages over rtnetlink and nfnetlink: requests for lo and its
 * routes, and two batches of rules that are composed at build time (tools/gen-egress-rules). They
 * contain nothing of the keeper's requests.
 *
 * What must not change: the namespace gets no device but lo. The only way out of a cell is the
 * listening socket that PID 1 passes to the outside (init/egress_listener.c). */
#include <errno.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "egress_rules.h"
#include "io.h"
#include "restrict.h"

/* The longest packet of IPv6, 65,535 bytes behind a head of 40: no datagram is fragmented. With
 * more the kernel makes segments of TCP over IPv6 that cannot be sent, and the connection stands
 * still. */
#define LO_MTU 65575
#define LO_INDEX 1 /* the first device of every network namespace */

/* Sends a request, or a batch of rules, and reads the kernel's one answer to it. */
static int transact(int sock, const struct iovec *parts, int n)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr result;
		char request[1024];
	} answer;
	ssize_t got;

	if (writev(sock, parts, n) < 0)
		return -1;
	got = recv(sock, &answer, sizeof(answer), 0);
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(answer.result)) ||
	    answer.head.nlmsg_type != NLMSG_ERROR)
		errno = EPROTO;
	else
		errno = -answer.result.error;
	return errno == 0 ? 0 : -1;
}

/* One request: a body (an ifinfomsg or a rtmsg) with one attribute. */
static int request_one(int sock, uint16_t type, const void *body, size_t len, uint16_t attr_type,
		       uint32_t value, struct err *e)
{
	const struct rtattr attr = { RTA_LENGTH(sizeof(value)), attr_type };
	const struct nlmsghdr head = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(len) + attr.rta_len,
				       .nlmsg_type = type,
				       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE };
	const struct iovec parts[] = { { (void *)(uintptr_t)&head, sizeof(head) },
				       { (void *)(uintptr_t)body, len },
				       { (void *)(uintptr_t)&attr, sizeof(attr) },
				       { &value, sizeof(value) } };

	if (transact(sock, parts, COUNT(parts)) < 0)
		return err_sys(e, "rtnetlink request %u", type);
	return 0;
}

int netns_egress_socket(void)
{
	OWN_FD netfilter = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	OWN_FD egress = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (egress < 0) /* a kernel without IPv6 */
		egress = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (setsockopt(egress, SOL_IP, IP_TRANSPARENT, &(int){ 1 }, sizeof(int)) < 0 ||
	    transact(netfilter, &egress_rules[0], 1) < 0)
		return -1;
	/* Without these datagrams are refused all the same, but not recorded. */
	(void)transact(netfilter, &egress_rules[1], 1);
	return TAKE_FD(egress);
}

int netns_diag_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

int netns_setup(int proc_sys_fd, struct err *e)
{
	const struct ifinfomsg link = { .ifi_index = LO_INDEX,
					.ifi_flags = IFF_UP,
					.ifi_change = IFF_UP };
	/* As `ip route add local default dev lo`. */
	const struct rtmsg route = { .rtm_family = AF_INET,
				     .rtm_table = RT_TABLE_LOCAL,
				     .rtm_protocol = RTPROT_BOOT,
				     .rtm_scope = RT_SCOPE_HOST,
				     .rtm_type = RTN_LOCAL };
	struct rtmsg route6 = route;

	route6.rtm_family = AF_INET6;
	OWN_FD sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (sock < 0)
		return err_sys(e, "rtnetlink");
	/* A kernel without IPv6 has nothing to route for it. */
	if (request_one(sock, RTM_NEWLINK, &link, sizeof(link), IFLA_MTU, LO_MTU, e) < 0 ||
	    request_one(sock, RTM_NEWROUTE, &route, sizeof(route), RTA_OIF, LO_INDEX, e) < 0 ||
	    (faccessat(proc_sys_fd, "net/ipv6", F_OK, 0) == 0 &&
	     request_one(sock, RTM_NEWROUTE, &route6, sizeof(route6), RTA_OIF, LO_INDEX, e) < 0) ||
	    io_write_file(proc_sys_fd, "net/ipv4/ip_unprivileged_port_start", "0", e) < 0)
		return err_wrap(e, "network");
	return 0;
}
