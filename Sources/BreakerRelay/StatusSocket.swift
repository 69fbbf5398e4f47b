internal import Glibc
internal import JSONText
internal import ProgramKit
internal import SharedBreaker

/// The socket beside a store at which a relay answers questions about its status.
///
/// A client connects, sends `status` or `figures` and a line feed, and reads one JSON document to the
/// end. Only users of the store can connect.
final class StatusSocket {
  private let descriptor: Int32
  private let path: String
  private let stop: WakePipe
  private var thread: BackgroundThread?

  private static let suffix = "-relay.sock"

  /// How long a client may take to ask, and to read the answer.
  private static let patience = Duration.seconds(2)

  /// Begins to listen, and replaces the socket of a relay that has ended.
  ///
  /// - Parameters:
  ///   - store: The path of the store, whose rights the socket gets.
  ///   - answer: Makes the document.
  /// - Throws: `RelayTrouble` if there can be no such socket.
  init(
    store: String, answer: @escaping @Sendable (RelayStatus.Question) -> String
  ) throws(RelayTrouble) {
    path = store + Self.suffix
    guard let stop = WakePipe() else { throw Self.trouble(path, EMFILE) }
    self.stop = stop
    descriptor = try Self.listening(at: path, store: store)
    let descriptor = descriptor
    thread = BackgroundThread { Self.serve(descriptor, until: stop, answer) }
    guard thread != nil else {
      Glibc.close(descriptor)
      throw Self.trouble(path, EAGAIN)
    }
  }

  /// Stops listening; the next relay replaces the socket's file.
  func close() {
    stop.wake()
    thread?.join()
    thread = nil
    Glibc.close(descriptor)
  }

  private static func trouble(_ path: String, _ number: Int32) -> RelayTrouble {
    .system("cannot listen at \(OutsideText.visible(path)): \(SystemError.text(number))")
  }
}

/// Listening.
extension StatusSocket {
  private static func listening(
    at path: String, store: String
  ) throws(RelayTrouble) -> Int32 {
    let kind =
      Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
      | Int32(SOCK_NONBLOCK.rawValue)
    let listener = socket(AF_UNIX, kind, 0)
    guard listener >= 0 else { throw trouble(path, errno) }
    // Only the relay that has claimed the store comes here, so one name is enough.
    let fresh = path + ".new"
    unsafe unlink(fresh)
    var status = stat()
    // The mode of the socket before it has a name becomes the mode of the file, so that nobody can
    // connect before it has its rights.
    guard unsafe stat(store, &status) == 0, fchmod(listener, 0o600) == 0,
      SocketAddress(path: fresh)?.bind(listener) == true
    else {
      let number = errno
      Glibc.close(listener)
      throw trouble(path, number)
    }
    // Neither call follows a link that somebody may have put there. If this user may not give the
    // file to the store's owner, it stays this user's.
    _ = unsafe lchown(fresh, status.st_uid, status.st_gid)
    let mode = status.st_mode & 0o666
    guard unsafe fchmodat(AT_FDCWD, fresh, mode, AT_SYMLINK_NOFOLLOW) == 0,
      listen(listener, 16) == 0,
      unsafe rename(fresh, path) == 0
    else {
      let number = errno
      unsafe unlink(fresh)
      Glibc.close(listener)
      throw trouble(path, number)
    }
    return listener
  }
}

/// Answering.
extension StatusSocket {
  private static func serve(
    _ listener: Int32, until stop: WakePipe, _ answer: @Sendable (RelayStatus.Question) -> String
  ) {
    while true {
      var entries = [
        pollfd(fd: stop.reading, events: Int16(POLLIN), revents: 0),
        pollfd(fd: listener, events: Int16(POLLIN), revents: 0),
      ]
      _ = unsafe poll(&entries, 2, -1)
      if entries[0].revents != 0 { return }
      guard entries[1].revents != 0 else { continue }
      let client = accept(listener, nil, nil)
      if client >= 0 {
        reply(to: client, answer)
        Glibc.close(client)
      } else if errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM {
        // The client is still waiting, so without a pause this would be a busy loop.
        _ = unsafe poll(&entries, 1, 500)
        if entries[0].revents != 0 { return }
      }
    }
  }

  private static func reply(to client: Int32, _ answer: (RelayStatus.Question) -> String) {
    _ = fcntl(client, F_SETFD, FD_CLOEXEC)
    _ = fcntl(client, F_SETFL, O_NONBLOCK)
    let exchange = Exchange(client: client, deadline: .now + patience)
    guard let question = exchange.question() else { return }
    // Making the answer takes as long as the server needs.
    Exchange(client: client, deadline: .now + RelayContext.patience + patience).send(
      answer(question))
  }

  /// Reading from and writing to a client, up to a deadline.
  private struct Exchange {
    let client: Int32
    let deadline: ContinuousClock.Instant

    /// Waits until the client is ready; returns false if it is too late.
    private func wait(for event: Int32) -> Bool {
      var entry = pollfd(fd: client, events: Int16(event), revents: 0)
      let left = DurationText.milliseconds(deadline - .now)
      return unsafe left > 0 && poll(&entry, 1, Int32(clamping: left)) > 0
    }

    /// What the client asks; nil if it takes too long, or asks something else.
    func question() -> RelayStatus.Question? {
      var question: [UInt8] = []
      while question.count < 64, question.last != UInt8(ascii: "\n"), wait(for: POLLIN) {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = unsafe read(client, &bytes, bytes.count)
        guard count > 0 else { break }
        question += bytes[..<count]
      }
      guard question.last == UInt8(ascii: "\n") else { return nil }
      return RelayStatus.Question(rawValue: String(decoding: question.dropLast(), as: UTF8.self))
    }

    func send(_ text: String) {
      var rest = Array(text.utf8)[...]
      while !rest.isEmpty, wait(for: POLLOUT) {
        let count = unsafe rest.withUnsafeBytes { bytes in
          unsafe Glibc.send(client, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
      }
    }
  }
}

/// Makes the answer to a question about a relay's status.
struct StatusReport {
  private let context: RelayContext
  private let question: RelayStatus.Question

  init(_ context: RelayContext, _ question: RelayStatus.Question) {
    self.context = context
    self.question = question
  }

  /// How long to wait for the server, because a client is waiting for the answer.
  private static let patience = Duration.seconds(1)

  /// The document as text.
  var text: String {
    let figures = context.health.now
    // Unknown is different from none.
    let hosts = figures.isConnected ? try? hostsOfFleet() : [ownHost]
    return RelayStatus(
      fleet: context.options.fleet, host: context.options.host, isConnected: figures.isConnected,
      since: figures.since, problem: figures.problem,
      lag: figures.isConnected ? figures.lag.map { .milliseconds($0) } : nil, waiting: waiting,
      applied: figures.applied, refused: figures.refused, hosts: hosts
    ).document(answering: question).text
  }

  /// How many commands have not reached the other hosts; nil if the store cannot be read.
  private var waiting: Int64? {
    guard let standing = try? context.store.fleetStanding() else { return nil }
    return Int64(standing.waiting)
  }

  /// This host alone, for when the server is unavailable.
  private var ownHost: RelayStatus.Host {
    let snapshots = question == .status ? (try? context.store.snapshots()) ?? [] : []
    return RelayStatus.Host(
      name: context.options.host, silence: .zero, isSilent: false,
      breakers: snapshots.compactMap { FleetBreaker($0, at: 0)?.standing(at: 0) })
  }
}

/// The hosts, as the server knows them.
extension StatusReport {
  /// How many hosts are read at once.
  private static let hostsAtOnce = 500

  private func hostsOfFleet() throws(RedisError) -> [RelayStatus.Host] {
    let connection = try RedisConnection(to: context.options.address, patience: Self.patience)
    let answers = try connection.ask([
      ["TIME"], ["ZRANGE", context.keys.hosts, "0", "-1", "WITHSCORES"],
    ])
    guard let now = ServerClock.milliseconds(answers[0]), let seen = answers[1].pairs else {
      throw .unexpected("a question about the hosts")
    }
    let silences = seen.compactMap { field, score -> (name: String, silence: Int64)? in
      guard let name = field.text, FleetName.complaint(about: name) == nil,
        let at = score.text.flatMap({ Double($0) }), at.magnitude < 1e15
      else { return nil }
      return (name, max(0, now - Int64(at)))
    }.sorted { $0.name < $1.name }
    let limit = max(FleetServer.shortestSilence, 3 * Int64(silences.count))
    var hosts = silences.map {
      RelayStatus.Host(
        name: $0.name, silence: .milliseconds($0.silence), isSilent: $0.silence >= limit,
        breakers: [])
    }
    guard question == .status else { return hosts }
    for start in stride(from: 0, to: hosts.count, by: Self.hostsAtOnce) {
      let chunk = start..<min(start + Self.hostsAtOnce, hosts.count)
      // The relay waits for this answer before it ends.
      guard !context.isStopped else { throw RedisError("the relay ends") }
      let fields = try connection.ask(
        hosts[chunk].map { ["HGETALL", context.keys.host($0.name)] })
      for (index, fields) in zip(chunk, fields) {
        hosts[index].breakers = breakers(in: fields, at: now)
      }
    }
    return hosts
  }

  private func breakers(in fields: RedisReply, at now: Int64) -> [RelayStatus.Standing] {
    let breakers = (fields.pairs ?? []).compactMap { field, value -> FleetBreaker? in
      guard let name = field.text, let text = value.text else { return nil }
      return FleetBreaker(text, named: name)
    }
    return breakers.sorted { $0.name < $1.name }.map { $0.standing(at: now) }
  }
}
