internal import SharedBreaker

/// The help of `cbrelay`.
package enum RelayHelp {
  package static let page = """
    Tells the hosts of a fleet about each other's circuit breakers, through a Redis or Valkey server.

    USAGE
      cbrelay --redis URL --fleet NAME [options]

    Run one cbrelay on each host, beside the store that the host's processes share. It passes on
    the commands that you give with 'cbctl ... --fleet', lets a breaker with fleet-quorum notice that
    other hosts have it open, and lets a breaker with fleet-spread notice that it has recovered
    elsewhere. While the server is away, every host goes on alone; nothing opens or closes because of
    that. A second cbrelay on the same store waits, and takes over when the first one ends.

    OPTIONS
      --redis URL           the server: redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]
                            or unix:///PATH[?db=DATABASE]
      --fleet NAME          the fleet that this host belongs to, the same on every host
      --host ID             what other hosts call this one (default: the host's name)
      --store PATH          the store's file (default: the one that cbctl uses)
      --password-file PATH  a file whose first line is the server's password
      --max-stream COUNT    how many messages the server keeps, about (default: 100000)
      --json                log JSON, one object a line (--check and --help print text)
      --check               try the store and the server, say what was found, and end
      --version             print the version
      -h, --help            print this help

    ENVIRONMENT
      SHARED_BREAKER_REDIS           for --redis
      SHARED_BREAKER_REDIS_PASSWORD  the server's password
      SHARED_BREAKER_FLEET           for --fleet
      SHARED_BREAKER_HOST            for --host
      SHARED_BREAKER_STORE           for --store
      NOTIFY_SOCKET, WATCHDOG_USEC   set by systemd, for Type=notify and WatchdogSec=

    EXIT CODES
      0   ended by SIGTERM or SIGINT; --check found nothing wrong
      1   output could not be written
      64  wrong usage; nothing was done
      69  the store cannot be used, or belongs to another fleet; --check could not use the store or
          the server

    EXAMPLES
      cbrelay --redis redis://redis.internal:6379 --fleet prod
      cbrelay --redis unix:///run/redis/redis.sock --fleet test --host a --check

    """

  package static let version =
    "cbrelay \(SharedStore.version) (SQLite \(SharedStore.sqliteVersion))\n"
}
