/* net.c - is there a way out over the network, and can the cell's own network be rearranged?
 *
 * Every address is local to the cell, so a connect to anywhere ends at once with ECONNREFUSED: not
 * ENETUNREACH, not a timeout. The host's listeners really listen on 127.0.0.1 and ::1 and tell
 * afterwards whether anybody came. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static socklen_t make_address(struct sockaddr_storage *ss, const char *text, int port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
		return 0;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) || IN6_IS_ADDR_MULTICAST(&v6->sin6_addr))
		v6->sin6_scope_id = if_nametoindex("lo");
	return sizeof(*v6);
}

static const char *tcp_connect(const char *address, int port)
{
	struct sockaddr_storage ss;
	socklen_t len = make_address(&ss, address, port), size = sizeof(int);
	struct pollfd p = { .events = POLLOUT };
	int err = 0;

	if (len == 0)
		return "unexpected";
	p.fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p.fd < 0)
		return answer_errno(errno);
	if (connect(p.fd, (struct sockaddr *)&ss, len) == 0)
		return "done";
	if (errno != EINPROGRESS)
		return answer_errno(errno);
	if (poll(&p, 1, 2000) <= 0)
		return "timeout";
	if (getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &err, &size) < 0)
		return answer_errno(errno);
	return err == 0 ? "done" : answer_errno(err);
}

static const char *tcp_out(const struct attack *a)
{
	return tcp_connect(a->arg, (int)a->num);
}

/* arg is the key of a port on which the host, or the sibling, listens; num is the family. */
static const char *tcp_canary(const struct attack *a)
{
	return tcp_connect(a->num == AF_INET ? "127.0.0.1" : "::1", (int)world_num(a->arg));
}

static const char *tcp_host_address(const struct attack *a)
{
	return tcp_connect(world("host-ip"), (int)world_num("tcp-any"));
}

/* The refusal of a datagram comes back as an error on the socket. */
static const char *udp_out(const struct attack *a)
{
	struct sockaddr_storage ss;
	socklen_t len = make_address(&ss, a->arg, (int)a->num);
	struct pollfd p = { .events = POLLIN };
	char c;

	p.fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (p.fd < 0 || connect(p.fd, (struct sockaddr *)&ss, len) < 0 || send(p.fd, "x", 1, 0) < 0)
		return answer_errno(errno);
	if (poll(&p, 1, 1000) <= 0)
		return "silence";
	return answer(recv(p.fd, &c, 1, 0));
}

/* Sends to everybody, on the port of the host's datagram canary. What counts is that the canary
 * hears nothing; locally the datagram may go where it likes. */
static const char *send_all(const struct attack *a)
{
	struct sockaddr_storage ss;
	socklen_t len = make_address(&ss, a->arg, (int)world_num("udp"));
	int one = 1, fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer_errno(errno);
	(void)setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one));
	return answer(sendto(fd, "escape", 6, 0, (struct sockaddr *)&ss, len));
}

/* A listener of our own stands where any address leads: proof that the way is a circle. */
static const char *circle(const struct attack *a)
{
	struct sockaddr_storage ss;
	socklen_t len = make_address(&ss, strchr(a->arg, ':') ? "::" : "0.0.0.0", (int)a->num);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const char *got;

	if (fd < 0 || bind(fd, (struct sockaddr *)&ss, len) < 0 || listen(fd, 1) < 0)
		return answer_errno(errno);
	got = tcp_connect(a->arg, (int)a->num);
	if (strcmp(got, "done") != 0)
		return got;
	return poll(&p, 1, 1000) > 0 ? "local" : "elsewhere";
}

static const char *bind_port(const struct attack *a)
{
	struct sockaddr_storage ss;
	socklen_t len = make_address(&ss, "0.0.0.0", (int)a->num);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? answer_errno(errno) : answer(bind(fd, (struct sockaddr *)&ss, len));
}

struct request {
	struct nlmsghdr head;
	unsigned char body[256];
};

static void put(struct request *r, const void *data, size_t len)
{
	memcpy((unsigned char *)r + r->head.nlmsg_len, data, len);
	r->head.nlmsg_len += (uint32_t)((len + 3) & ~3UL);
}

static void put_attr(struct request *r, unsigned short type, const void *data, size_t len)
{
	struct nlattr attr = { (unsigned short)(sizeof(attr) + len), type };

	put(r, &attr, sizeof(attr));
	put(r, data, len);
}

static void fill_request(struct request *r, int type)
{
	struct ifinfomsg link = { .ifi_family = AF_UNSPEC };
	struct ifaddrmsg addr = { .ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = 1 };
	struct rtmsg route = { .rtm_family = AF_INET,
			       .rtm_table = RT_TABLE_MAIN,
			       .rtm_protocol = RTPROT_STATIC,
			       .rtm_type = RTN_UNICAST };
	struct ndmsg neigh = { .ndm_family = AF_INET,
			       .ndm_ifindex = 1,
			       .ndm_state = NUD_PERMANENT };
	struct tcmsg tc = { .tcm_ifindex = 1, .tcm_parent = 0xffffffffU };
	unsigned char ip[4] = { 10, 9, 8, 7 }, mac[6] = { 2 };
	struct nlattr kind = { sizeof(kind) + 5, IFLA_INFO_KIND };
	unsigned char info[16] = { 0 };
	int one = 1;

	switch (type) {
	case RTM_NEWLINK:
		put(r, &link, sizeof(link));
		memcpy(info, &kind, sizeof(kind));
		memcpy(info + sizeof(kind), "veth", 5);
		put_attr(r, IFLA_LINKINFO, info, 12);
		return;
	case RTM_SETLINK:
	case RTM_DELLINK:
		link.ifi_index = 1;
		link.ifi_change = IFF_UP;
		put(r, &link, sizeof(link));
		return;
	case RTM_NEWADDR:
	case RTM_DELADDR:
		put(r, &addr, sizeof(addr));
		put_attr(r, IFA_LOCAL, ip, sizeof(ip));
		return;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		put(r, &route, sizeof(route));
		put_attr(r, RTA_OIF, &one, sizeof(one));
		return;
	case RTM_NEWNEIGH:
		put(r, &neigh, sizeof(neigh));
		put_attr(r, NDA_DST, ip, sizeof(ip));
		put_attr(r, NDA_LLADDR, mac, sizeof(mac));
		return;
	default:
		put(r, &tc, sizeof(tc));
		put_attr(r, TCA_KIND, type == RTM_NEWACTION ? "pedit" : "pfifo", 6);
		return;
	}
}

/* num is a message of rtnetlink that changes something. */
static const char *rtnetlink(const struct attack *a)
{
	struct request r = { .head = { .nlmsg_len = NLMSG_HDRLEN,
				       .nlmsg_type = (uint16_t)a->num } };
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		unsigned char rest[1024];
	} reply = { 0 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return answer_errno(errno);
	r.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	if (a->num != RTM_DELLINK && a->num != RTM_DELADDR && a->num != RTM_DELROUTE)
		r.head.nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
	fill_request(&r, (int)a->num);
	if (sendto(fd, &r, r.head.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) < 0 ||
	    recv(fd, &reply, sizeof(reply), 0) < 0)
		return answer_errno(errno);
	if (reply.head.nlmsg_type != NLMSG_ERROR)
		return "unexpected";
	return reply.err.error == 0 ? "done" : answer_errno(-reply.err.error);
}

/* Any interface besides lo? */
static const char *interfaces(const struct attack *a)
{
	struct if_nameindex *list = if_nameindex();

	if (!list)
		return answer_errno(errno);
	for (const struct if_nameindex *i = list; i->if_index != 0; i++)
		if (strcmp(i->if_name, "lo") != 0)
			return answer_text("foreign:%s", i->if_name);
	return list[0].if_index != 0 ? "only-lo" : "none";
}

static const char *interface_ioctl(const struct attack *a)
{
	struct ifreq ifr;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer_errno(errno);
	memset(&ifr, 0, sizeof(ifr));
	memcpy(ifr.ifr_name, "lo", 3);
	ifr.ifr_addr.sa_family = a->num == SIOCSIFADDR ? AF_INET : 0;
	return answer(syscall(SYS_ioctl, (long)fd, a->num, &ifr));
}

/* arg lists type, level, option and value. */
static const char *socket_option(const struct attack *a)
{
	const int *o = a->arg;
	unsigned char value[256] = { 0 };
	int fd = socket((int)a->num, o[0] | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return answer_errno(errno);
	memcpy(value, &o[3], sizeof(o[3]));
	return answer(setsockopt(fd, o[1], o[2], value, o[3] == 0 ? sizeof(value) : sizeof(o[3])));
}

static long fragments(void)
{
	static char buf[16384];
	const char *p;

	if (slurp("/proc/self/net/snmp6", buf, sizeof(buf)) < 0)
		return -1;
	p = strstr(buf, "Ip6FragCreates");
	return p ? strtol(p + strlen("Ip6FragCreates"), NULL, 10) : -1;
}

/* num is the size of a datagram; arg, when there, asks for the smallest allowed packet first. */
static const char *fragment_udp6(const struct attack *a)
{
	static char data[65536];
	struct sockaddr_storage ss;
	socklen_t len = make_address(&ss, "::1", 9);
	int mtu = 1280, fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long before = fragments(), after;

	if (fd < 0)
		return answer_errno(errno);
	if (a->arg && setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, sizeof(mtu)) < 0)
		return answer_errno(errno);
	if (sendto(fd, data, (size_t)a->num, 0, (struct sockaddr *)&ss, len) < 0)
		return answer_errno(errno);
	after = fragments();
	if (before < 0 || after < 0)
		return "unexpected";
	return after > before ? "fragmented" : "whole";
}

/* arg is a table of /proc/net; the host's canary must not be in it. num: 0 the TCP port, in the
 * kernel's hexadecimal; 1 the name of the abstract socket. */
static const char *look_for_canary(const struct attack *a)
{
	static char buf[1 << 20];
	char port[16];

	if (slurp(a->arg, buf, sizeof(buf)) < 0)
		return answer_path(-1);
	(void)snprintf(port, sizeof(port), ":%04lX ", world_num("tcp"));
	return strstr(buf, a->num ? world("abstract") : port) ? "leaked" : "clean";
}

#define OPTION(...)         \
	(const int[4])      \
	{                   \
		__VA_ARGS__ \
	}
#define CLOSED "ECONNREFUSED"
#define TCP_ROW(id, what, address, port) \
	ROW("tcp-" id, "B", "connect to " what, tcp_out, CLOSED, NULL, address, port)
#define RT_ROW(id, section, what, type) \
	ROW("rt-" id, section, "rtnetlink: " what, rtnetlink, REFUSED, NULL, NULL, type)

/* clang-format off */
static const struct attack rows[] = {
ROW("tcp-host-v4", "C", "the host's listener on 127.0.0.1",
	tcp_canary, CLOSED, "done", "tcp", AF_INET),
ROW("tcp-host-v6", "C", "the host's listener on ::1", tcp_canary, CLOSED, "done", "tcp", AF_INET6),
ROW("tcp-host-address", "C", "the host's listener on its own address",
	tcp_host_address, CLOSED, "done", NULL, 0),
ROW("tcp-sibling-v4", "C", "the sibling's listener on 127.0.0.1",
	tcp_canary, CLOSED, NULL, "sibling-port", AF_INET),
ROW("tcp-sibling-v6", "C", "the sibling's listener on ::1",
	tcp_canary, CLOSED, NULL, "sibling-port", AF_INET6),
TCP_ROW("metadata", "the cloud's metadata service", "169.254.169.254", 80),
TCP_ROW("metadata-v6", "the cloud's metadata service over IPv6", "fd00:ec2::254", 80),
TCP_ROW("metadata-mapped", "the metadata service, mapped", "::ffff:169.254.169.254", 80),
TCP_ROW("alibaba", "another cloud's metadata service", "100.100.100.200", 80),
TCP_ROW("private-10", "a private network", "10.0.0.1", 80),
TCP_ROW("private-172", "a container bridge", "172.17.0.1", 22),
TCP_ROW("private-192", "a home router", "192.168.1.1", 80),
TCP_ROW("public", "a public address", "8.8.8.8", 53),
TCP_ROW("public-v6", "a public IPv6 address", "2001:4860:4860::8888", 53),
TCP_ROW("synthetic", "the range of synthetic addresses", "198.18.0.1", 443),
ROW("tcp-any", "B", "connect to 0.0.0.0", tcp_out, CLOSED, NULL, "0.0.0.0", 81),
ROW("tcp-link-local", "B", "connect to a link-local address",
	tcp_out, "ECONNREFUSED", NULL, "fe80::1", 80),
ROW("udp-dns", "B", "DNS to a public resolver", udp_out, CLOSED, NULL, "8.8.8.8", 53),
ROW("udp-dns-v6", "B", "DNS to a public resolver over IPv6",
	udp_out, CLOSED, NULL, "2001:4860:4860::8888", 53),
ROW("udp-quic", "B", "QUIC to a public address", udp_out, CLOSED, NULL, "1.1.1.1", 443),
ROW("udp-ntp", "B", "NTP to a public address", udp_out, CLOSED, NULL, "162.159.200.1", 123),
ROW("circle-v4", "B", "any address is our own (IPv4)",
	circle, "local", NULL, "169.254.169.254", 8471),
ROW("circle-v6", "B", "any address is our own (IPv6)", circle, "local", NULL, "2001:db8::1", 8472),
ROW("bind-low", "B", "bind port 80 of the cell, which is legal", bind_port, "done", NULL, NULL, 80),
ROW("broadcast", "C", "broadcast, as DHCP does", send_all, "done", NULL, "255.255.255.255", 0),
ROW("multicast-mdns", "C", "multicast, as mDNS does", send_all, "done", NULL, "224.0.0.251", 0),
ROW("multicast-v6", "C", "multicast to all IPv6 nodes", send_all, "done", NULL, "ff02::1", 0),
ROW("interfaces", "C", "an interface besides lo", interfaces, "only-lo", NULL, NULL, 0),
RT_ROW("new-link", "B", "make an interface", RTM_NEWLINK),
RT_ROW("set-link", "B", "change lo", RTM_SETLINK),
RT_ROW("del-link", "B", "remove lo", RTM_DELLINK),
RT_ROW("new-address", "C", "add an address", RTM_NEWADDR),
RT_ROW("del-address", "C", "remove an address", RTM_DELADDR),
RT_ROW("new-route", "C", "add a route", RTM_NEWROUTE),
RT_ROW("del-route", "C", "remove a route", RTM_DELROUTE),
RT_ROW("neighbour", "C", "spoof a neighbour (ARP)", RTM_NEWNEIGH),
RT_ROW("qdisc", "B", "traffic control: queue", RTM_NEWQDISC),
RT_ROW("filter", "B", "traffic control: filter", RTM_NEWTFILTER),
RT_ROW("pedit", "B", "traffic control: act_pedit", RTM_NEWACTION),
ROW("ioctl-lo-down", "C", "take lo down", interface_ioctl, REFUSED, NULL, NULL, SIOCSIFFLAGS),
ROW("ioctl-address", "C", "change lo's address", interface_ioctl, REFUSED, NULL, NULL, SIOCSIFADDR),
ROW("ioctl-mac", "C", "change lo's hardware address",
	interface_ioctl, REFUSED, NULL, NULL, SIOCSIFHWADDR),
ROW("ioctl-mtu", "C", "change lo's packet size", interface_ioctl, REFUSED, NULL, NULL, SIOCSIFMTU),
ROW("so-mark", "B", "mark packets",
	socket_option, REFUSED, "done", OPTION(SOCK_DGRAM, SOL_SOCKET, SO_MARK, 1), AF_INET),
ROW("so-rcvbufforce", "D", "receive buffer beyond the limit",
	socket_option, REFUSED, "done", OPTION(SOCK_DGRAM, SOL_SOCKET, SO_RCVBUFFORCE, 1 << 30),
	AF_INET),
ROW("so-priority", "B", "packet priority 7",
	socket_option, REFUSED, "done", OPTION(SOCK_DGRAM, SOL_SOCKET, SO_PRIORITY, 7), AF_INET),
ROW("ip-transparent", "B", "take over foreign addresses",
	socket_option, REFUSED, "done", OPTION(SOCK_STREAM, IPPROTO_IP, IP_TRANSPARENT, 1),
	AF_INET),
ROW("tcp-repair", "B", "rewrite the state of a connection",
	socket_option, REFUSED, "done", OPTION(SOCK_STREAM, IPPROTO_TCP, TCP_REPAIR, 1), AF_INET),
ROW("iptables", "B", "replace the packet filter's table",
	socket_option, "EPERM|ENOPROTOOPT", NULL, OPTION(SOCK_STREAM, IPPROTO_IP, 64, 0), AF_INET),
ROW("xfrm-policy", "B", "an IPsec policy by socket option",
	socket_option, REFUSED, "EINVAL", OPTION(SOCK_DGRAM, IPPROTO_IP, 17, 0), AF_INET),
ROW("xfrm-policy-v6", "B", "an IPsec policy by IPv6 socket option",
	socket_option, REFUSED, "EINVAL", OPTION(SOCK_DGRAM, IPPROTO_IPV6, 35, 0), AF_INET6),
ROW("frag-udp6-mtu", "B", "IPv6 fragments by a small packet size",
	fragment_udp6, "whole|EPERM|ENOPROTOOPT", NULL, "mtu", 4000),
ROW("frag-udp6-big", "B", "IPv6 fragments by a datagram larger than lo",
	fragment_udp6, "whole|EMSGSIZE", NULL, NULL, 65527),
ROW("net-tcp-table", "C", "the host's connections in /proc/net/tcp",
	look_for_canary, "clean", "leaked", "/proc/net/tcp", 0),
ROW("net-unix-table", "C", "the host's sockets in /proc/net/unix",
	look_for_canary, "clean", "leaked", "/proc/net/unix", 1),
};
/* clang-format on */

const struct table net_table = TABLE(rows);
