/* socket.c - which sockets can be made at all.
 *
 * Families whose code this kernel lacks answer EAFNOSUPPORT by themselves, which would prove
 * nothing. So each row first asks with a socket type that does not exist: the kernel says EINVAL to
 * that before it looks at the family, and only a filter says anything else. "unfiltered" means
 * the filter let the family through. */
#include "probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NO_SUCH_TYPE = 15 };

static const char *try_socket(long family, long type, long protocol)
{
	return answer(syscall(SYS_socket, family, type, protocol));
}

static const char *filtered(long family, long type, long protocol)
{
	if (syscall(SYS_socket, family, (long)NO_SUCH_TYPE, protocol) < 0 && errno == EINVAL)
		return "unfiltered";
	return try_socket(family, type, protocol);
}

static const char *family(const struct attack *a)
{
	return filtered(a->num, SOCK_RAW, 0);
}

static const char *family_dgram(const struct attack *a)
{
	return filtered(a->num, SOCK_DGRAM, 0);
}

static const char *family_seqpacket(const struct attack *a)
{
	return filtered(a->num, SOCK_SEQPACKET, 0);
}

/* socketpair(2) takes the same families by another door. */
static const char *pair(const struct attack *a)
{
	int fds[2];

	return answer(socketpair((int)a->num, SOCK_DGRAM, 0, fds));
}

/* The filter must look at the lower 32 bits, as the kernel does. */
static const char *family_high(const struct attack *a)
{
	return filtered(a->num | 1L << 32, SOCK_RAW, 0);
}

static const char *netlink(const struct attack *a)
{
	return filtered(AF_NETLINK, SOCK_RAW, a->num);
}

static const char *protocol(const struct attack *a)
{
	const long *p = a->arg;

	return filtered(p[0], p[1], p[2]);
}

static const char *plain(const struct attack *a)
{
	const long *p = a->arg;

	return try_socket(p[0], p[1], p[2]);
}

#define SOCKET(f, t, p) \
	(const long[3]) \
	{               \
		f, t, p \
	}
#define NO_FAMILY "EAFNOSUPPORT"
#define NO_PROTOCOL "EPROTONOSUPPORT"
#define FAMILY(id, what, number) \
	ROW("family-" id, "B", "socket family: " what, family, NO_FAMILY, NULL, NULL, number)
#define NETLINK(id, what, number) \
	ROW("netlink-" id, "B", "netlink: " what, netlink, NO_PROTOCOL, NULL, NULL, number)

/* clang-format off */
static const struct attack rows[] = {
FAMILY("packet", "packets of the wire", 17),
FAMILY("key", "IPsec keys", 15),
ROW("family-alg", "B", "socket family: kernel cryptography (Copy Fail)",
	family_seqpacket, NO_FAMILY, "unfiltered", NULL, 38),
ROW("family-rds", "B", "socket family: RDS", family_seqpacket, NO_FAMILY, "unfiltered", NULL, 21),
ROW("family-vsock", "B", "socket family: the hypervisor",
	family_dgram, NO_FAMILY, "unfiltered", NULL, 40),
FAMILY("bluetooth", "Bluetooth", 31),
FAMILY("can", "CAN bus", 29),
ROW("family-tipc", "B", "socket family: TIPC", family_dgram, NO_FAMILY, "unfiltered", NULL, 30),
FAMILY("ax25", "amateur radio", 3),
FAMILY("ipx", "IPX", 4),
FAMILY("appletalk", "AppleTalk", 5),
FAMILY("netrom", "NET/ROM", 6),
FAMILY("atmpvc", "ATM permanent circuits", 8),
FAMILY("x25", "X.25", 9),
FAMILY("rose", "ROSE", 11),
FAMILY("decnet", "DECnet", 12),
FAMILY("atmsvc", "ATM switched circuits", 20),
FAMILY("irda", "infrared", 23),
FAMILY("pppox", "PPP over X, L2TP", 24),
FAMILY("llc", "LLC", 26),
FAMILY("ib", "InfiniBand", 27),
FAMILY("mpls", "MPLS", 28),
FAMILY("rxrpc", "RxRPC", 33),
FAMILY("isdn", "ISDN", 34),
FAMILY("phonet", "Phonet", 35),
FAMILY("ieee802154", "IEEE 802.15.4", 36),
FAMILY("caif", "CAIF", 37),
FAMILY("nfc", "NFC", 39),
FAMILY("kcm", "KCM", 41),
FAMILY("qipcrtr", "Qualcomm IPC router", 42),
FAMILY("smc", "SMC", 43),
FAMILY("xdp", "XDP", 44),
FAMILY("mctp", "MCTP", 45),
ROW("family-high", "B", "AF_ALG with bits above 32 set",
	family_high, NO_FAMILY, "unfiltered", NULL, 38),
ROW("pair-vsock", "B", "socketpair of another family", pair, NO_FAMILY, NULL, NULL, 40),
ROW("pair-tipc", "B", "socketpair of TIPC", pair, NO_FAMILY, NULL, NULL, 30),
ROW("family-unix", "B", "a local socket, which is legal",
	plain, "done", "done", SOCKET(AF_UNIX, SOCK_STREAM, 0), 0),
ROW("family-inet", "B", "an IPv4 socket, which is legal",
	plain, "done", "done", SOCKET(AF_INET, SOCK_STREAM, 0), 0),
ROW("family-inet6", "B", "an IPv6 socket, which is legal",
	plain, "done", "done", SOCKET(AF_INET6, SOCK_DGRAM, 0), 0),
NETLINK("usersock", "between processes", 2),
NETLINK("sock-diag", "list of sockets", 4),
NETLINK("nflog", "packet log", 5),
NETLINK("xfrm", "IPsec", 6),
NETLINK("selinux", "SELinux", 7),
NETLINK("iscsi", "iSCSI", 8),
NETLINK("audit", "audit", 9),
NETLINK("fib", "route lookups", 10),
NETLINK("connector", "process events", 11),
NETLINK("netfilter", "nftables", 12),
NETLINK("uevent", "device events", 15),
NETLINK("generic", "generic netlink", 16),
NETLINK("scsi", "SCSI transports", 18),
NETLINK("ecryptfs", "eCryptfs", 19),
NETLINK("rdma", "RDMA", 20),
NETLINK("crypto", "kernel cryptography", 21),
NETLINK("smc", "SMC", 22),
ROW("sctp-stream", "B", "SCTP, one to one",
	protocol, NO_PROTOCOL, "unfiltered", SOCKET(AF_INET, SOCK_STREAM, 132), 0),
ROW("sctp-seqpacket", "B", "SCTP, one to many",
	protocol, NO_PROTOCOL, "unfiltered", SOCKET(AF_INET, SOCK_SEQPACKET, 132), 0),
ROW("sctp6", "B", "SCTP over IPv6",
	protocol, NO_PROTOCOL, "unfiltered", SOCKET(AF_INET6, SOCK_STREAM, 132), 0),
ROW("dccp", "B", "DCCP", protocol, NO_PROTOCOL, "unfiltered", SOCKET(AF_INET, 6, 33), 0),
ROW("udplite", "B", "UDP-Lite",
	protocol, NO_PROTOCOL, "unfiltered", SOCKET(AF_INET, SOCK_DGRAM, 136), 0),
ROW("mptcp", "B", "MPTCP",
	protocol, NO_PROTOCOL, "unfiltered", SOCKET(AF_INET, SOCK_STREAM, 262), 0),
ROW("l2tp", "B", "L2TP over IP",
	protocol, NO_PROTOCOL, "unfiltered", SOCKET(AF_INET, SOCK_DGRAM, 115), 0),
ROW("raw-icmp", "B", "raw ICMP socket",
	plain, NO_PROTOCOL, "done", SOCKET(AF_INET, SOCK_RAW, IPPROTO_ICMP), 0),
ROW("raw-tcp", "B", "raw TCP socket",
	plain, NO_PROTOCOL, "done", SOCKET(AF_INET, SOCK_RAW, IPPROTO_TCP), 0),
ROW("raw-any", "B", "raw IP socket with own headers",
	plain, NO_PROTOCOL, "done", SOCKET(AF_INET, SOCK_RAW, IPPROTO_RAW), 0),
ROW("raw-icmp6", "C", "raw ICMPv6, for router advertisements",
	plain, NO_PROTOCOL, "done", SOCKET(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), 0),
ROW("raw-esp", "B", "raw ESP socket",
	plain, NO_PROTOCOL, "done", SOCKET(AF_INET, SOCK_RAW, IPPROTO_ESP), 0),
ROW("packet-by-inet", "C", "AF_PACKET by its old name, AF_INET and SOCK_PACKET",
	plain, NO_PROTOCOL, "done", SOCKET(AF_INET, SOCK_PACKET, 0x0300), 0),
ROW("ping-socket", "B", "unprivileged ICMP socket",
	plain, NO_PROTOCOL, NULL, SOCKET(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), 0),
ROW("ping6-socket", "B", "unprivileged ICMPv6 socket",
	plain, NO_PROTOCOL, NULL, SOCKET(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6), 0),
};
/* clang-format on */

const struct table socket_table = TABLE(rows);
