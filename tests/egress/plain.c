/* plain.c - an HTTP client with plain sockets, linked statically: it reads no environment variable,
 * and no preloaded library changes it. Usage: plain HOST PORT PATH. It exits with 2 if there is no
 * such host, and with 3 without an answer. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	char text[4096];

	if (argc != 4)
		return 1;
	if (getaddrinfo(argv[1], argv[2], &hints, &found) != 0)
		return 2;
	int s = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || connect(s, found->ai_addr, found->ai_addrlen) < 0)
		return 3;
	freeaddrinfo(found);
	int len = snprintf(text, sizeof(text),
			   "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", argv[3],
			   argv[1]);
	if (len < 0 || write(s, text, (size_t)len) != len)
		return 3;
	ssize_t n;
	while ((n = read(s, text, sizeof(text))) > 0)
		if (write(1, text, (size_t)n) != n)
			return 3;
	return n < 0 ? 3 : 0;
}
