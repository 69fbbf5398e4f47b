internal import Glibc
@_spi(Relay) internal import ProgramKit
@_spi(Relay) package import SharedBreaker
internal import Synchronization

/// A host's relay, which claims the store, connects to the fleet, and starts over after each failure.
package final class Relay: Sendable {
  private let context: RelayContext

  /// Prepares a relay.
  ///
  /// - Throws: `RelayTrouble` if the store cannot be used, or belongs to another fleet, because
  ///   waiting would not help then.
  package init(
    _ options: RelayOptions, storeOptions: StoreOptions = StoreOptions(),
    environment: [String: String] = [:], log: RelayLog,
    onStep: @escaping @Sendable (RelayStep) -> Void = { _ in }
  ) throws(RelayTrouble) {
    // A peer that closes its connection is an ordinary error.
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    guard let stop = WakePipe() else { throw .system("no file descriptor is left") }
    var storeOptions = storeOptions
    storeOptions.program = storeOptions.program ?? "cbrelay"
    // The relay's log reports trouble.
    storeOptions.isQuiet = true
    let watch = SentinelWatch(options.address, until: stop) { log.report(.sentinels, $0) }
    context = RelayContext(
      options: options, store: SharedStore(path: options.store, options: storeOptions),
      keys: FleetKeys(fleet: options.fleet), log: log,
      manager: ServiceManager(environment: environment), sentinels: watch, stop: stop,
      onStep: onStep)
    let standing: FleetStanding?
    do throws(StoreError) {
      try context.store.connect()
      standing = try context.store.fleetStanding()
    } catch {
      throw .store(error)
    }
    if let standing, standing.fleet != options.fleet {
      throw .otherFleet(context.store.path, standing.fleet)
    }
  }

  /// Asks the relay to end; any thread may call this.
  package func stop() { context.stop.wake() }

  /// Works until the relay is stopped.
  package func run() throws(RelayTrouble) {
    guard let wakeup = WakePipe() else { throw .system("no file descriptor is left") }
    let feed = LocalFeed(wakeup: wakeup)
    let options = context.options
    context.log.report(
      .started,
      "started: host \(options.host) of fleet \(options.fleet), store \(context.store.path)")
    context.manager.tell("READY=1")
    let watching = try watchSentinels()
    defer { watching?.join() }
    while !context.isStopped, let claim = claim() {
      let task = feed.follow(context.store)
      defer {
        task.cancel()
        claim.release()
      }
      work(with: claim, feed)
    }
    context.manager.tell("STOPPING=1")
    context.log.report(.ended, "ended")
    context.store.close()
  }
}

/// Working.
extension Relay {
  /// Begins to follow the primary that sentinels name, if there are any.
  private func watchSentinels() throws(RelayTrouble) -> BackgroundThread? {
    guard let sentinels = context.sentinels else { return nil }
    guard let thread = BackgroundThread({ sentinels.run() }) else {
      throw .system("no thread is left")
    }
    return thread
  }

  /// Claims the store as soon as no other relay has it; nil if this one is stopped.
  private func claim() -> RelayClaim? {
    var pause = Pause()
    var hasSaid = false
    while !context.isStopped {
      do throws(StoreError) {
        let claim = try context.store.claimRelay(
          fleet: context.options.fleet, host: context.options.host)
        if let claim {
          context.onStep(.claimed)
          return claim
        }
        if !hasSaid {
          context.log.report(
            .waiting, "waiting: another cbrelay works on the store \(context.store.path)")
        }
        hasSaid = true
        pause = Pause()
        sleep(.milliseconds(250))
      } catch {
        report(.store(error), claim: nil)
        sleep(pause.next())
      }
    }
    return nil
  }

  /// Works on a store as long as it is the same one and can be used.
  private func work(with claim: RelayClaim, _ feed: LocalFeed) {
    let socket = statusSocket()
    defer { socket?.close() }
    var pause = Pause()
    while !context.isStopped {
      do throws(RelayTrouble) {
        try connectAndStay(claim, feed) { pause.noteSession(of: $0) }
        return
      } catch {
        report(error, claim: claim, isNews: pause.isFirst)
        switch error {
        case .replaced: return
        case .store(let error) where error.kind != .busy && error.kind != .diskFull:
          // The path may name another file by now, with another lock.
          sleep(pause.next())
          return
        default: sleep(pause.next())
        }
      }
    }
  }

  /// Takes part in the fleet until something fails or the relay is stopped.
  private func connectAndStay(
    _ claim: RelayClaim, _ feed: LocalFeed, noteAge: (Duration) -> Void
  ) throws(RelayTrouble) {
    let session = try FleetSession(context, claim: claim, since: StoreClock.system.wallTime)
    context.sentinels?.use(session.server.address)
    defer { context.sentinels?.use(nil) }
    try session.catchUp(after: feed)
    try noteConnection(claim, to: session.server.address, hostsSeen: session.view.hostsSeen)
    let moved = (context.sentinels?.hasMoved).map { [Self.awaited($0.reading)] } ?? []
    var tellsAt: ContinuousClock.Instant?
    while !context.isStopped {
      let late = min(
        session.nextBeat, session.stream.deadline, tellsAt ?? session.nextBeat,
        session.nextSuspicion ?? session.nextBeat, session.nextHoldLook ?? session.nextBeat)
      let news = tellsAt == nil ? [Self.awaited(feed.wakeup.reading)] : []
      let ready = wait(for: [session.stream.awaited] + moved + news, until: late)
      if !moved.isEmpty, ready[1] {
        throw .redis(RedisError("its sentinels name another primary now"))
      }
      // Messages first: they may make a message of this host superfluous.
      let isLate = ContinuousClock.now >= session.stream.deadline
      if ready[0] || isLate { try session.hear() }
      if ready.dropFirst(1 + moved.count) == [true] {
        _ = try session.tellPendingCommands()
        tellsAt = .now + session.hesitation
      }
      if let due = tellsAt, ContinuousClock.now >= due {
        tellsAt = nil
        let news = feed.take()
        if news.isIncomplete { throw .behind("changes on this host were too many to follow") }
        try session.tell(news.changes)
        session.held.formUnion(news.held)
        if !news.held.isEmpty { try session.tellHolds() }
        if try session.tellPendingCommands() { feed.wakeup.wake() }
      }
      try session.suspectThoseDue()
      if let due = session.nextHoldLook, ContinuousClock.now >= due { try session.tellHolds() }
      noteAge(session.age)
      if ContinuousClock.now >= session.nextBeat {
        if try session.tellPendingCommands() { feed.wakeup.wake() }
        try session.beat()
      }
    }
    try session.leave()
  }

  private func statusSocket() -> StatusSocket? {
    let context = context
    do throws(RelayTrouble) {
      return try StatusSocket(store: context.store.path) { question, user in
        StatusReport(context, question, from: user?.words).text
      }
    } catch {
      context.log.report(
        .problem, "\(error.words(for: context.options)): 'cbctl fleet status' cannot ask")
      return nil
    }
  }
}

/// Waiting.
extension Relay {
  private static func awaited(_ descriptor: Int32) -> pollfd {
    pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
  }

  /// Waits until something happens to a descriptor, the relay is stopped, or a deadline has passed.
  ///
  /// - Returns: Whether it has happened to each of the descriptors.
  private func wait(
    for descriptors: [pollfd], until deadline: ContinuousClock.Instant
  ) -> [Bool] {
    context.manager.showLife()
    var entries = descriptors + [Self.awaited(context.stop.reading)]
    let limit = min(deadline - .now, context.manager.watchdogInterval ?? .seconds(60))
    let milliseconds = Int32(clamping: max(0, DurationText.milliseconds(limit)))
    _ = unsafe poll(&entries, nfds_t(entries.count), milliseconds)
    return entries.dropLast().map { $0.revents != 0 }
  }

  private func sleep(_ time: Duration) { _ = wait(for: [], until: .now + time) }
}

/// Reporting.
extension Relay {
  private func noteConnection(
    _ claim: RelayClaim, to server: RedisAddress, hostsSeen: Int
  ) throws(RelayTrouble) {
    try FleetSession.stored { () throws(StoreError) in
      try claim.note(isConnected: true, problem: nil)
    }
    guard
      context.health.note(isConnected: true, problem: nil, at: StoreClock.system.wallTime)
    else { return }
    let hosts = CountedNoun.text(hostsSeen, "host")
    let address = context.options.address
    let name = server == address ? "" : ", which name \(server)"
    let words = "connected to \(address)\(name): the fleet \(context.options.fleet) has \(hosts)"
    context.log.report(.connected, words)
    context.manager.tell("STATUS=\(words)")
  }

  /// Reports trouble; `isNews` says whether it is the first for a while.
  private func report(_ trouble: RelayTrouble, claim: RelayClaim?, isNews: Bool = true) {
    let words = trouble.words(for: context.options)
    if case .behind = trouble {
      if isNews { context.log.report(.catchingUp, words) }
      return
    }
    guard
      context.health.note(isConnected: false, problem: words, at: StoreClock.system.wallTime)
    else { return }
    let effect = claim == nil ? "" : ": this host continues on its own"
    context.log.report(.problem, words + effect)
    context.manager.tell("STATUS=\(words)")
    // If the store is what fails, the line above has to be enough.
    do { try claim?.note(isConnected: false, problem: words) } catch {}
  }
}

/// Changes of the breakers of this host since the relay last took them.
final class LocalFeed: Sendable {
  struct News: Sendable {
    /// The breakers that have changed, each with the latest change that may concern the fleet.
    var changes: [String: LocalChange?] = [:]

    /// The breakers that may be held, by a hold that may concern the fleet.
    var held: Set<String> = []

    /// Whether changes were missed, so that all breakers have to be read.
    var isIncomplete = false
  }

  /// Raised when there is news.
  let wakeup: WakePipe
  private let news = Mutex(News())

  /// For how many breakers changes are remembered; if there are more, all breakers are read.
  private static let room = 20_000

  init(wakeup: WakePipe) { self.wakeup = wakeup }

  /// Follows the history of a store until the task is cancelled.
  func follow(_ store: SharedStore) -> Task<Void, Never> {
    let feed = store.followHistory()
    return Task.detached { for await entry in feed { self.take(entry) } }
  }

  private func take(_ entry: HistoryEntry) {
    news.withLock { news in
      if entry.isAfterGap { news.isIncomplete = true }
      if let change = LocalChange(entry) {
        news.changes[entry.name] = change
      } else if news.changes[entry.name] == nil {
        news.changes[entry.name] = .some(nil)
      }
      switch entry.change {
      case .hold, .policy: news.held.insert(entry.name)
      default: break
      }
      if news.changes.count > Self.room { news = News(isIncomplete: true) }
    }
    wakeup.wake()
  }

  /// Returns the news since the last call.
  func take() -> News {
    wakeup.empty()
    return news.withLock { news in
      defer { news = News() }
      return news
    }
  }
}

/// The pauses between attempts, which grow, and vary so that hosts do not all try at once.
package struct Pause {
  private var milliseconds = 50.0

  private static let longest = 1_500.0

  /// How long a session has to last for the pauses to begin again.
  private static let lasting = Duration.seconds(10)

  package init() {}

  /// Whether there has been no pause yet.
  package var isFirst: Bool { milliseconds == 50 }

  /// The length of the next pause.
  package mutating func next() -> Duration {
    milliseconds = min(milliseconds * 2, Self.longest)
    return .milliseconds(Int64(milliseconds * .random(in: 0.5...1)))
  }

  /// Begins again with short pauses if a session has lasted.
  ///
  /// If it did so after a short session, it would repeat a failure at the start of sessions ten
  /// times a second.
  package mutating func noteSession(of age: Duration) {
    if age > Self.lasting { self = Pause() }
  }
}
