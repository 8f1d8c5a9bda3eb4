#include "tls_socket.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

static int socket_write(BIO *b, const char *data, int len)
{
	ssize_t n = send((int)(intptr_t)BIO_get_data(b), data, (size_t)len, MSG_NOSIGNAL);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(b);
	return (int)n;
}

static int socket_read(BIO *b, char *buf, int cap)
{
	ssize_t n = recv((int)(intptr_t)BIO_get_data(b), buf, (size_t)cap, 0);

	BIO_clear_retry_flags(b);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(b);
	if (n == 0)
		BIO_set_flags(b, BIO_FLAGS_IN_EOF);
	return (int)n;
}

static long socket_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)num;
	(void)ptr;
	if (cmd == BIO_CTRL_FLUSH)
		return 1;
	if (cmd == BIO_CTRL_EOF)
		return BIO_test_flags(b, BIO_FLAGS_IN_EOF) != 0;
	return 0;
}

BIO_METHOD *tls_socket_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

	if (!m || !BIO_meth_set_write(m, socket_write) || !BIO_meth_set_read(m, socket_read) ||
	    !BIO_meth_set_ctrl(m, socket_ctrl)) {
		BIO_meth_free(m);
		return NULL;
	}
	return m;
}
