#include "code_begin.h"

#include "session_boot.h"
#include "session_service.h"

int code_begin(struct request *r, struct session *session, struct spec_exec *s, struct err *e)
{
	if (!s->is_code)
		return 0;
	s->spec.user = session_boot_user(NULL, session_row(session)->profile);
	if (s->spec.cwd == NULL)
		s->spec.cwd = "/";
	return session_service_interpreter(session, request_actor(r), e);
}
