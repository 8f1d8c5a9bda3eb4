/* netns.c - sets up the network of a cell: loopback only, every address local, and packet rules
 * that redirect connections to one socket.
 *
 * Called by cell_enter.c in the cell's new network namespace, by PID 1 while it has its
 * capabilities there. Sends fixed messages over rtnetlink and nfnetlink. The build composes them
 * (tools/gen-cell-network). They contain nothing of the keeper's requests.
 *
 * Invariant: the namespace gets no device but lo. The only way out of a cell is the listening
 * socket that PID 1 passes to the outside (cell/init/pid1/egress_listener.c). */
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "cell/keeper/restrict.h"
#include "cell_network.h"
#include "lib/base/io.h"

/* Send a request, or a batch of rules, and read the kernel's one answer to it. */
static int netns_send(int sock, const struct iovec *message)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr result;
		char request[1024];
	} answer;
	ssize_t got;

	if (writev(sock, message, 1) < 0)
		return -1;
	got = recv(sock, &answer, sizeof(answer), 0);
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(answer.result)) ||
	    answer.head.nlmsg_type != NLMSG_ERROR)
		errno = EPROTO;
	else
		errno = -answer.result.error;
	return errno == 0 ? 0 : -1;
}

int netns_egress_socket(void)
{
	OWN_FD netfilter = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	OWN_FD egress = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (egress < 0) /* a kernel without IPv6 */
		egress = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (setsockopt(egress, SOL_IP, IP_TRANSPARENT, &(int){ 1 }, sizeof(int)) < 0 ||
	    netns_send(netfilter, &cell_network_rules[0]) < 0)
		return -1;
	/* Without these datagrams are refused all the same, but not recorded. */
	(void)netns_send(netfilter, &cell_network_rules[1]);
	return TAKE_FD(egress);
}

int netns_diag_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

int netns_setup(int proc_sys_fd, struct err *e)
{
	/* A kernel without IPv6 has nothing to route for it. */
	size_t n = COUNT(cell_network_loopback) - (faccessat(proc_sys_fd, "net/ipv6", F_OK, 0) < 0);
	OWN_FD sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	for (size_t i = 0; i < n; i++)
		if (netns_send(sock, &cell_network_loopback[i]) < 0)
			return err_sys(e, "network: request %zu", i);
	return io_write_file(proc_sys_fd, "net/ipv4/ip_unprivileged_port_start", "0", e);
}
