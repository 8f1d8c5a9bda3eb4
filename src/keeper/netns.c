#include "netns.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "io.h"

/* More than the largest UDP datagram with its headers: nothing is ever fragmented. */
#define LO_MTU 65600
#define LO_INDEX 1 /* the first device of every network namespace */

struct request {
	struct nlmsghdr head;
	char body[32]; /* an ifinfomsg or a rtmsg, with one attribute */
};

static void put(struct request *r, size_t at, const void *bytes, size_t n)
{
	memcpy(r->body + at, bytes, n);
}

static void fill_link_up(struct request *r)
{
	const struct ifinfomsg link = { .ifi_index = LO_INDEX,
					.ifi_flags = IFF_UP,
					.ifi_change = IFF_UP };
	const struct rtattr attr = { .rta_len = RTA_LENGTH(sizeof(uint32_t)),
				     .rta_type = IFLA_MTU };
	const uint32_t mtu = LO_MTU;

	r->head = (struct nlmsghdr){ .nlmsg_len = NLMSG_LENGTH(sizeof(link)) + attr.rta_len,
				     .nlmsg_type = RTM_NEWLINK,
				     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK };
	put(r, 0, &link, sizeof(link));
	put(r, sizeof(link), &attr, sizeof(attr));
	put(r, sizeof(link) + sizeof(attr), &mtu, sizeof(mtu));
}

/* As `ip route add local default dev lo`. */
static void fill_route(struct request *r, unsigned char family)
{
	const struct rtattr attr = { .rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = RTA_OIF };
	const uint32_t device = LO_INDEX;
	const struct rtmsg route = { .rtm_family = family,
				     .rtm_table = RT_TABLE_LOCAL,
				     .rtm_protocol = RTPROT_BOOT,
				     .rtm_scope = RT_SCOPE_HOST,
				     .rtm_type = RTN_LOCAL };

	r->head = (struct nlmsghdr){ .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)) + attr.rta_len,
				     .nlmsg_type = RTM_NEWROUTE,
				     .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE };
	put(r, 0, &route, sizeof(route));
	put(r, sizeof(route), &attr, sizeof(attr));
	put(r, sizeof(route) + sizeof(attr), &device, sizeof(device));
}

static int ask(int sock, const struct request *r, struct err *e)
{
	char answer[1024];
	struct nlmsghdr head;
	struct nlmsgerr result;

	if (send(sock, r, r->head.nlmsg_len, 0) != (ssize_t)r->head.nlmsg_len)
		return err_sys(e, "rtnetlink send");
	if (recv(sock, answer, sizeof(answer), 0) < (ssize_t)(sizeof(head) + sizeof(result)))
		return err_sys(e, "rtnetlink receive");
	memcpy(&head, answer, sizeof(head));
	memcpy(&result, answer + NLMSG_HDRLEN, sizeof(result));
	if (head.nlmsg_type != NLMSG_ERROR)
		return err_set(e, ERR_SYSTEM, "rtnetlink: unexpected answer %u", head.nlmsg_type);
	errno = -result.error;
	if (result.error != 0)
		return err_sys(e, "rtnetlink request %u", r->head.nlmsg_type);
	return 0;
}

int netns_setup(int proc_sys_fd, struct err *e)
{
	struct request up, route4, route6;

	memset(&up, 0, sizeof(up));
	memset(&route4, 0, sizeof(route4));
	memset(&route6, 0, sizeof(route6));
	fill_link_up(&up);
	fill_route(&route4, AF_INET);
	fill_route(&route6, AF_INET6);
	OWN_FD sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (sock < 0)
		return err_sys(e, "rtnetlink");
	if (ask(sock, &up, e) < 0 || ask(sock, &route4, e) < 0)
		return err_wrap(e, "network");
	/* A kernel without IPv6 has nothing to route. */
	if (faccessat(proc_sys_fd, "net/ipv6", F_OK, 0) == 0 && ask(sock, &route6, e) < 0)
		return err_wrap(e, "network, IPv6");
	if (io_write_file(proc_sys_fd, "net/ipv4/ip_unprivileged_port_start", "0", e) < 0)
		return err_wrap(e, "network");
	return 0;
}
