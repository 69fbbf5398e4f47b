import BreakerDocuments
import Glibc
@_spi(Relay) import ProgramKit
@_spi(Relay) import SharedBreaker

/// Asks the relay of a store what it knows, over the socket beside the store.
struct RelayClient {
  /// The path of the socket.
  var path: String

  /// How long connecting, asking and reading may take together.
  var patience: Duration

  /// The longest answer that is read; a hundred thousand breakers take about ten megabytes.
  private static let longestAnswer = 32 << 20

  init(store path: String, patience: Duration) {
    self.path = path + "-relay.sock"
    self.patience = patience
  }

  /// Asks for the status.
  ///
  /// - Throws: `RelaySilence` if nothing listens, or no whole answer arrives in time.
  func status(_ question: RelayStatus.Question = .status) throws(RelaySilence) -> RelayStatus {
    let text = try answer(to: question)
    do { return try RelayStatus(document: text) } catch {
      throw RelaySilence("its answer cannot be understood: \(error.description)")
    }
  }

  /// Asks which hosts have carried out the latest commands to a breaker.
  func confirmations(of name: String) throws(RelaySilence) -> FleetConfirmations {
    let text = try answer(to: .confirmations(of: name))
    guard !text.isEmpty else {
      throw RelaySilence("it is of an earlier version, which knows of no confirmations")
    }
    do { return try FleetConfirmations(document: text) } catch {
      throw RelaySilence("its answer cannot be understood: \(error.description)")
    }
  }

  /// Asks it to forget a host that is gone.
  func forget(host: String) throws(RelaySilence) -> FleetDismissal {
    let text = try answer(to: .forgetting(host: host))
    guard !text.isEmpty else {
      throw RelaySilence("it is of an earlier version, which cannot forget hosts")
    }
    do { return try FleetDismissal(document: text) } catch {
      throw RelaySilence("its answer cannot be understood: \(error.description)")
    }
  }

  /// Tells it what this process is about to command, so that it knows from the kernel who does so.
  ///
  /// It throws nothing: a relay that does not hear of it passes the command on as unverified.
  static func announce(
    _ action: FleetCommand.Action, reason: String?, to names: [String], store path: String,
    atMost patience: Duration
  ) {
    let end = ContinuousClock.now + patience
    var rest = names[...]
    while !rest.isEmpty {
      var size = 0
      let part = rest.prefix { name in
        size += name.utf8.count
        return size <= FleetGiving.roomForNames || size == name.utf8.count
      }
      rest = rest.dropFirst(part.count)
      let client = RelayClient(store: path, patience: end - .now)
      do throws(RelaySilence) {
        _ = try client.answer(to: .giving(FleetGiving(action, reason: reason, to: Array(part))))
      } catch {
        return
      }
    }
  }

  private func answer(to question: RelayStatus.Question) throws(RelaySilence) -> String {
    let end = ContinuousClock.now + patience
    let socket = try RelaySocket(connectedTo: path, until: end)
    defer { socket.close() }
    try socket.send("\(question.words)\n", until: end)
    let answer = try socket.readAll(atMost: Self.longestAnswer, until: end)
    guard let text = String(validating: answer, as: UTF8.self) else {
      throw RelaySilence("its answer is not UTF-8")
    }
    return text
  }
}

/// Why a relay gave no answer, in words that follow "the relay gave no answer".
struct RelaySilence: Error, Hashable {
  var why: String

  init(_ why: String) { self.why = why }

  init(errno number: Int32) { self.init(SystemError.text(number)) }

  static let late = RelaySilence("it took too long")
}

/// A connection to a relay whose every wait is bounded.
private struct RelaySocket {
  private let descriptor: Int32

  init(connectedTo path: String, until end: ContinuousClock.Instant) throws(RelaySilence) {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw RelaySilence(errno: errno) }
    do throws(RelaySilence) { try connect(to: path, until: end) } catch {
      close()
      throw error
    }
  }

  func close() { Glibc.close(descriptor) }

  /// Connects; the limit on sending also bounds the wait for the relay's full queue.
  private func connect(to path: String, until end: ContinuousClock.Instant) throws(RelaySilence) {
    guard let address = SocketAddress(path: path) else { throw RelaySilence(errno: errno) }
    try limitSending(until: end)
    guard !address.connect(descriptor) else { return }
    switch errno {
    case EAGAIN, EINPROGRESS: throw .late
    case ENOENT, ECONNREFUSED: throw RelaySilence("nothing listens at its socket")
    case let number: throw RelaySilence(errno: number)
    }
  }

  func send(_ text: String, until end: ContinuousClock.Instant) throws(RelaySilence) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      try limitSending(until: end)
      let count = unsafe rest.withUnsafeBytes { bytes in
        unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
      }
      if count > 0 { rest = rest.dropFirst(count) }
      if count < 0, errno != EINTR { throw errno == EAGAIN ? .late : RelaySilence(errno: errno) }
    }
  }

  /// Reads until the relay closes the connection.
  func readAll(
    atMost longest: Int, until end: ContinuousClock.Instant
  ) throws(RelaySilence) -> [UInt8] {
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      var entry = [pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)]
      let ready = unsafe poll(&entry, 1, Int32(clamping: try milliseconds(until: end)))
      if ready < 0, errno != EINTR { throw RelaySilence(errno: errno) }
      guard ready > 0 else { continue }
      let count = unsafe recv(descriptor, &chunk, chunk.count, Int32(MSG_DONTWAIT))
      if count == 0 { return answer }
      if count < 0 {
        if errno == EINTR || errno == EAGAIN { continue }
        throw RelaySilence(errno: errno)
      }
      answer += chunk[..<count]
      guard answer.count <= longest else {
        throw RelaySilence("its answer is longer than \(longest >> 20) MiB")
      }
    }
  }

  private func limitSending(until end: ContinuousClock.Instant) throws(RelaySilence) {
    let rest = try milliseconds(until: end)
    var limit = timeval(tv_sec: Int(rest / 1_000), tv_usec: Int(rest % 1_000) * 1_000)
    _ = unsafe setsockopt(
      descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  /// The time that is left, which is never zero, because zero would mean waiting forever.
  private func milliseconds(until end: ContinuousClock.Instant) throws(RelaySilence) -> Int64 {
    let rest = SpokenDuration.milliseconds(end - ContinuousClock.now)
    guard rest > 0 else { throw .late }
    return rest
  }
}

extension CommandContext {
  /// The store's knowledge of its fleet; nil if it belongs to none.
  func fleetStanding() throws(ControlError) -> FleetStanding? {
    try connectToExisting()
    return try ask { store throws(StoreError) in try store.fleetStanding() }
  }

  /// Asks the relay of a fleet what it knows.
  ///
  /// - Throws: If it does not run, answer or reach the fleet, or if Redis does not name the hosts.
  func answer(of fleet: FleetStanding) throws(ControlError) -> RelayStatus {
    func unseen(_ why: String, _ remedy: String) -> ControlError {
      ControlError(
        .storeUnavailable, "fleet \(VisibleText.name(fleet.fleet)) cannot be seen", why, remedy)
    }
    let now = now()
    guard fleet.isRelayRunning else {
      throw unseen(fleet.trouble(at: now) ?? "", "start cbrelay")
    }
    let status: RelayStatus
    do throws(RelaySilence) {
      status = try RelayClient(store: store.path, patience: console.relayPatience).status()
    } catch {
      throw unseen(
        "the relay of this host gives no answer (\(VisibleText.bare(error.why)))",
        "try again, or look at its log")
    }
    guard status.isConnected else {
      throw unseen(
        FleetTrouble.notReached(since: status.since, status.problem, status.waiting ?? 0, at: now),
        status.problem == nil
          ? "it connects as soon as it can"
          : "remove the cause, and it connects by itself")
    }
    guard status.hosts != nil else {
      throw unseen("Redis gives the relay of this host no answer now", "try again")
    }
    return status
  }
}

/// The trouble with a host's connection to its fleet, in words.
private enum FleetTrouble {
  /// Says that the relay is not connected, for how long, why, and how many commands wait.
  static func notReached(
    since: BreakerTimestamp?, _ problem: String?, _ waiting: Int64, at now: BreakerTimestamp
  ) -> String {
    let duration = since.map { " for \(Age.short(of: $0, at: now))" } ?? " yet"
    let problem = problem.map { " (\(VisibleText.bare($0)))" } ?? ""
    return "this host's relay has not reached it\(duration)\(problem)\(words(waiting))"
  }

  static func noRelay(waiting: Int64) -> String {
    "the relay of this host does not run" + words(waiting)
  }

  private static func words(_ waiting: Int64) -> String {
    switch waiting {
    case 0: ""
    case 1: ", and 1 command waits"
    default: ", and \(waiting) commands wait"
    }
  }
}

extension FleetStanding {
  /// The trouble with this host's connection to the fleet, with its cause if `isFull`; nil if there
  /// is none.
  func trouble(at now: BreakerTimestamp, isFull: Bool = true) -> String? {
    if !isRelayRunning { return FleetTrouble.noRelay(waiting: Int64(waiting)) }
    if isConnected { return nil }
    return FleetTrouble.notReached(
      since: changedAt, isFull ? problem : nil, Int64(waiting), at: now)
  }

  /// One line about that, and where to find out more.
  func hint(at now: BreakerTimestamp) -> String? {
    trouble(at: now, isFull: false).map {
      "fleet \(VisibleText.name(fleet)): \($0): see 'cbctl doctor'"
    }
  }
}
