/* pause holds a pod's namespaces open and reaps the zombies of a shared PID namespace. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void down(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, NULL, WNOHANG) > 0); }

int main(void) {
  struct sigaction end = {.sa_handler = down};
  struct sigaction child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  if (sigaction(SIGINT, &end, NULL) || sigaction(SIGTERM, &end, NULL) || sigaction(SIGCHLD, &child, NULL)) return 1;
  for (;;) pause();
}
