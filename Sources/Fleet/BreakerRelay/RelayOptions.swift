internal import Glibc
internal import ProgramKit
internal import SharedBreaker

/// The options of a relay.
package struct RelayOptions: Sendable, Hashable {
  package var address: RedisAddress
  package var fleet: String
  package var host: String

  /// The file of the store; nil for the default.
  package var store: String?

  /// About how many messages the server keeps for hosts that are away for a moment.
  package var maximumStream = 100_000

  /// How often a relay looks whether the server still has what it knows.
  package var lookInterval = Duration.seconds(60)
  package var isJSON = false

  /// The keys of the fleet, of which the first one signs; none if nothing is signed.
  package var keys: [FleetKey] = []

  /// Whether unsigned texts are still accepted, during the introduction of the first key.
  package var acceptsUnsigned = false

  /// The hosts whose commands this host obeys; nil for those of every host.
  package var obeyed: Set<String>?

  /// The keys that have to sign a command for this host to obey it; none if no command needs one.
  package var obeyedKeys: [CommandKeyName] = []

  /// The key with which this host signs its commands; nil if it has none.
  package var commandKey: CommandKey?

  /// The files that only this user should be able to read.
  package var secretFiles: [String] = []

  package init(address: RedisAddress, fleet: String, host: String, store: String? = nil) {
    self.address = address
    self.fleet = fleet
    self.host = host
    self.store = store
  }

  /// The keys and hosts that this relay trusts.
  package var authority: FleetAuthority {
    FleetAuthority(
      fleet: fleet, keys: keys, acceptsUnsigned: acceptsUnsigned, obeyed: obeyed,
      obeyedKeys: obeyedKeys, commandKey: commandKey)
  }
}

/// The request of a command line.
package enum RelayRequest: Sendable, Hashable {
  case run(RelayOptions)
  case check(RelayOptions)
  case help
  case version
}

/// Reading the command line.
extension RelayRequest {
  /// Reads the words after the program's name, and the variables that can replace some of them.
  ///
  /// - Throws: `UsageError` if they make no sense.
  package init(
    arguments: [String], environment: [String: String], hostName: String
  ) throws(UsageError) {
    var given = GivenWords()
    var words = arguments[...]
    while let word = words.popFirst() {
      switch try given.take(word, from: &words) {
      case .option: break
      case .help:
        self = .help
        return
      case .version:
        self = .version
        return
      }
    }
    let options = try given.options(environment: environment, hostName: hostName)
    self = given.isCheck ? .check(options) : .run(options)
  }
}

/// The words of a command line, before their values are checked.
private struct GivenWords {
  enum Meaning { case option, help, version }

  private var values: [String: String] = [:]
  private var isJSON = false
  var isCheck = false

  private static let options: Set<String> = [
    "--redis", "--fleet", "--host", "--store", "--password-file", "--max-stream", "--ca-file",
    "--client-cert-file", "--client-key-file", "--sentinel-user", "--sentinel-password-file",
    "--key-file", "--command-key-file", "--unsigned", "--obey",
  ]
  private static let flags: Set<String> = ["--json", "--check", "--help", "--version"]

  mutating func take(
    _ word: String, from rest: inout ArraySlice<String>
  ) throws(UsageError) -> Meaning {
    switch word {
    case "--help", "-h": return .help
    case "--version": return .version
    case "--json": isJSON = true
    case "--check": isCheck = true
    default: try takeValue(word, from: &rest)
    }
    return .option
  }

  private mutating func takeValue(
    _ word: String, from rest: inout ArraySlice<String>
  ) throws(UsageError) {
    let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let name = String(parts[0])
    guard Self.options.contains(name) else {
      if Self.flags.contains(name) {
        throw UsageError("\(name) takes no value", "run 'cbrelay --help'")
      }
      let what = word.hasPrefix("-") ? "there is no option" : "cbrelay takes no words, and got"
      // Only the beginning, because the word may be an address with a password.
      let beginning = name.prefix { $0.isLetter || $0 == "-" }
      throw UsageError("\(what) '\(OutsideText.quoted(String(beginning)))'", "run 'cbrelay --help'")
    }
    guard let value = parts.count == 2 ? String(parts[1]) : rest.popFirst(), !value.isEmpty else {
      throw UsageError("\(name) needs a value", "run 'cbrelay --help'")
    }
    guard values.updateValue(value, forKey: name) == nil else {
      throw UsageError("\(name) is given twice", "give it once")
    }
  }

  func options(
    environment: [String: String], hostName: String
  ) throws(UsageError) -> RelayOptions {
    func value(_ option: String, or variable: String) -> String? {
      values[option] ?? environment[variable].flatMap { $0.isEmpty ? nil : $0 }
    }
    guard let redis = value("--redis", or: "SHARED_BREAKER_REDIS") else {
      throw UsageError(
        "no Redis server is given", "use --redis redis://HOST:PORT or $SHARED_BREAKER_REDIS")
    }
    guard let fleet = value("--fleet", or: "SHARED_BREAKER_FLEET") else {
      throw UsageError(
        "no fleet is given", "use --fleet NAME or $SHARED_BREAKER_FLEET, the same on every host")
    }
    let host = value("--host", or: "SHARED_BREAKER_HOST")
    var options = RelayOptions(
      address: try RedisAddress(redis), fleet: fleet, host: host ?? hostName,
      store: values["--store"])
    try FleetName.check(options.fleet, of: "a fleet", remedy: "choose another --fleet")
    try FleetName.check(
      options.host, of: "a host", remedy: "choose one with --host or $SHARED_BREAKER_HOST")
    if let password = try Self.password(
      file: values["--password-file"], variable: environment["SHARED_BREAKER_REDIS_PASSWORD"])
    {
      options.address.password = password
    }
    guard options.address.user == nil || options.address.password != nil else {
      // The server would treat such a relay as its default user.
      throw UsageError(
        "the address of the Redis server has a user, but there is no password",
        "use --password-file or $SHARED_BREAKER_REDIS_PASSWORD")
    }
    options.address.tls = try tls(
      of: options.address, authorities: value("--ca-file", or: "SHARED_BREAKER_REDIS_CA_FILE"),
      certificate: value("--client-cert-file", or: "SHARED_BREAKER_REDIS_CLIENT_CERT_FILE"),
      key: value("--client-key-file", or: "SHARED_BREAKER_REDIS_CLIENT_KEY_FILE"))
    try setAuthority(
      of: &options, keyFile: value("--key-file", or: "SHARED_BREAKER_FLEET_KEY_FILE"),
      commandKeyFile: value("--command-key-file", or: "SHARED_BREAKER_FLEET_COMMAND_KEY_FILE"),
      unsigned: value("--unsigned", or: "SHARED_BREAKER_FLEET_UNSIGNED"),
      obeyed: value("--obey", or: "SHARED_BREAKER_FLEET_OBEY"))
    options.address.place = try place(
      of: options.address, user: value("--sentinel-user", or: "SHARED_BREAKER_REDIS_SENTINEL_USER"),
      password: Self.password(
        file: values["--sentinel-password-file"],
        variable: environment["SHARED_BREAKER_REDIS_SENTINEL_PASSWORD"]))
    if let text = values["--max-stream"] {
      guard let count = Int(text), (1_000...100_000_000).contains(count) else {
        throw UsageError(
          "--max-stream cannot be '\(OutsideText.quoted(text))'",
          "use a number of messages from 1000 to 100000000")
      }
      options.maximumStream = count
    }
    options.secretFiles = [
      values["--password-file"], values["--sentinel-password-file"], options.address.tls?.key,
    ].compactMap { $0 }
    options.isJSON = isJSON
    return options
  }

  /// The keys and hosts that this relay trusts.
  private func setAuthority(
    of options: inout RelayOptions, keyFile: String?, commandKeyFile: String?, unsigned: String?,
    obeyed: String?
  ) throws(UsageError) {
    if let keyFile { options.keys = try KeyFile.keys(at: keyFile) }
    if let commandKeyFile { options.commandKey = try KeyFile.commandKey(at: commandKeyFile) }
    if let key = options.commandKey, options.keys.contains(where: { $0.isSame(as: key) }) {
      throw UsageError(
        "the command key is a key of the fleet, which every host has",
        "make another one for --command-key-file: 'openssl rand -hex 32'")
    }
    switch unsigned {
    case nil, "refuse": break
    case "accept": options.acceptsUnsigned = true
    case let word?:
      throw UsageError(
        "--unsigned cannot be '\(OutsideText.quoted(word))'", "use accept or refuse")
    }
    if let obeyed {
      let words = obeyed.split { $0 == "," || $0 == " " }.map(String.init)
      for word in words where CommandKeyName.isMeant(by: word) {
        guard let key = CommandKeyName(word) else {
          throw UsageError(
            "--obey cannot name the key '\(OutsideText.quoted(word))'",
            "write it as 'cbrelay --check' shows it on the host that has its --command-key-file")
        }
        options.obeyedKeys.append(key)
      }
      let hosts = words.filter { !CommandKeyName.isMeant(by: $0) }
      for host in hosts { try FleetName.check(host, of: "a host", remedy: "correct --obey") }
      guard !words.isEmpty else {
        throw UsageError("--obey names no host and no key", "name one, or leave it out")
      }
      options.obeyed = hosts.isEmpty ? nil : Set(hosts)
    }
    let option =
      obeyed != nil ? "--obey" : commandKeyFile != nil ? "--command-key-file" : "--unsigned"
    guard options.keys.isEmpty, unsigned != nil || obeyed != nil || commandKeyFile != nil else {
      return
    }
    // Any writer to the server could send commands in the name of these hosts.
    throw UsageError(
      "\(option) means nothing without a key",
      "use --key-file, the same on every host")
  }

  /// How the server is reached, with the user and the password for its sentinels.
  private func place(
    of address: RedisAddress, user: String?, password: String?
  ) throws(UsageError) -> RedisAddress.Place {
    guard case .sentinels(var sentinels) = address.place else {
      guard user ?? password == nil else {
        throw UsageError(
          "there is a user or a password for sentinels, but the address names none",
          "use sentinel://HOST:PORT,HOST:PORT/NAME, or leave them out")
      }
      return address.place
    }
    guard user == nil || password != nil else {
      throw UsageError(
        "there is a user for the sentinels, but no password",
        "use --sentinel-password-file or $SHARED_BREAKER_REDIS_SENTINEL_PASSWORD")
    }
    (sentinels.user, sentinels.password) = (user, password)
    return .sentinels(sentinels)
  }

  /// How the connection to a server is encrypted; nil if its address does not ask for that.
  private func tls(
    of address: RedisAddress, authorities: String?, certificate: String?, key: String?
  ) throws(UsageError) -> RedisTLS? {
    guard address.tls != nil else {
      guard authorities ?? certificate ?? key == nil else {
        // An operator who names a certificate does not expect to be without encryption.
        throw UsageError(
          "there are files for TLS, but the address of the Redis server does not ask for TLS",
          "use rediss:// or sentinels://, or leave out --ca-file, --client-cert-file and --client-key-file and their"
            + " variables")
      }
      return nil
    }
    guard (certificate == nil) == (key == nil) else {
      throw UsageError(
        "a client certificate needs its key, and a key its certificate",
        "use --client-cert-file and --client-key-file together")
    }
    // They are not read yet: another program may still have to put them there.
    return RedisTLS(authorities: authorities, certificate: certificate, key: key)
  }

  /// The password that a file or a variable holds; nil if neither is given.
  private static func password(
    file path: String?, variable: String?
  ) throws(UsageError) -> String? {
    guard let path else { return variable.flatMap { $0.isEmpty ? nil : $0 } }
    let name = "the password file '\(OutsideText.quoted(path))'"
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw UsageError("\(name) cannot be read: \(SystemError.text(errno))", "check the path")
    }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 4_096)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    guard count >= 0 else {
      throw UsageError("\(name) cannot be read: \(SystemError.text(errno))", "check the path")
    }
    let line = bytes[..<count].prefix { $0 != 0x0A && $0 != 0x0D }
    guard !line.isEmpty, let text = String(validating: line, as: UTF8.self) else {
      throw UsageError("\(name) has no password in its first line", "write it there")
    }
    return text
  }
}

/// The help of `cbrelay`.
package enum RelayHelp {
  package static let page = """
    Tells the hosts of a fleet about each other's circuit breakers, through a Redis or Valkey server.

    USAGE
      cbrelay --redis URL --fleet NAME [options]

    Run one cbrelay on each host, beside the store that the host's processes share. It passes on
    the commands that you give with 'cbctl ... --fleet', lets a breaker with fleet-quorum notice that
    it is open on other hosts, and lets a breaker with fleet-spread notice that it has recovered
    elsewhere. If the server is unavailable, every host continues on its own, and no breaker opens or
    closes because of that. A second cbrelay on the same store waits, and takes over when the first
    one ends.

    OPTIONS
      --redis URL           the server: redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE],
                            rediss://... for TLS, unix:///PATH[?db=DATABASE], or the primary
                            that sentinels name:
                            sentinel://[USER[:PASSWORD]@]HOST[:PORT][,...]/NAME[/DATABASE],
                            sentinels://... for TLS to all of them
      --fleet NAME          the fleet that this host belongs to, the same on every host
      --host ID             what other hosts call this one (default: the host's name)
      --store PATH          the store's file (default: the one that cbctl uses)
      --password-file PATH  a file whose first line is the server's password
      --ca-file PATH        for TLS, a file with the certificates of the authorities to trust
                            (default: those of the system)
      --client-cert-file PATH, --client-key-file PATH
                            for TLS, this host's certificate and its key, if the server wants one
      --sentinel-user NAME, --sentinel-password-file PATH
                            the user and the password of the sentinels, if they want them
      --key-file PATH       sign what this host tells with the first key of this file, and refuse what
                            is not signed with one of its keys
      --unsigned WORD       accept: take what is not signed too, while hosts get their first key
                            (default: refuse)
      --obey HOSTS|KEYS     obey the commands of these hosts only, as in ops-1,ops-2, or only those
                            that one of these command keys has signed, as in ed25519:5f2c...; if
                            both are named, both have to be so (default: those of every host)
      --command-key-file PATH
                            sign the commands of this host with the key in this file, which only
                            hosts have that may command; --check shows its name for --obey
      --max-stream COUNT    about how many messages the server keeps (default: 100000)
      --json                log JSON, one object a line (--check and --help print text)
      --check               check the store and the server, print what was found, and exit
      --version             print the version
      -h, --help            print this help

    ENVIRONMENT
      SHARED_BREAKER_REDIS           for --redis
      SHARED_BREAKER_REDIS_PASSWORD  the server's password
      SHARED_BREAKER_REDIS_CA_FILE   for --ca-file
      SHARED_BREAKER_REDIS_CLIENT_CERT_FILE, SHARED_BREAKER_REDIS_CLIENT_KEY_FILE
                                     for --client-cert-file and --client-key-file
      SHARED_BREAKER_REDIS_SENTINEL_USER, SHARED_BREAKER_REDIS_SENTINEL_PASSWORD
                                     for --sentinel-user, and the password of the sentinels
      SHARED_BREAKER_FLEET           for --fleet
      SHARED_BREAKER_FLEET_KEY_FILE, SHARED_BREAKER_FLEET_UNSIGNED, SHARED_BREAKER_FLEET_OBEY,
      SHARED_BREAKER_FLEET_COMMAND_KEY_FILE
                                     for --key-file, --unsigned, --obey and --command-key-file
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
      cbrelay --redis rediss://cbrelay@redis.internal --fleet prod --password-file /etc/redis.pw
      cbrelay --redis sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster --fleet prod
      cbrelay --redis unix:///run/redis/redis.sock --fleet test --host a --check

    """

  package static let version =
    "cbrelay \(SharedStore.version) (SQLite \(SharedStore.sqliteVersion))\n"
}

/// A command line or an environment that cannot be understood.
package struct UsageError: Error, Hashable, CustomStringConvertible {
  /// The mistake and the remedy, without the program's name.
  package var description: String

  package init(_ what: String, _ remedy: String) { description = "\(what): \(remedy)" }
}
