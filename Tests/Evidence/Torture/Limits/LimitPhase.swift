import Glibc
import SharedBreaker
import TestSupport

/// Processes under one limit, while it is changed and they are killed, stopped and replaced.
final class LimitPhase {
  private var plan: LimitPlan
  let directory: TemporaryDirectory

  /// The programs that make calls, each in a language of its own; they take the same words.
  private let clients: [String]
  private let own: SharedStore
  private let breaker: Breaker
  private let witness: Witness
  private var members: [Member] = []
  private var started = 0
  private var commanders: [Child] = []
  private var found: [Violation] = []

  /// The names of stopped processes, and when each goes on.
  private var later: [(at: Int64, name: String)] = []

  private(set) var tally = LimitTally()

  /// A worker, and the name by which the witness knows it.
  private struct Member {
    var child: Child
    var name: String
    var isStopped = false
  }

  private var store: String { directory.file("breakers.db") }

  init(_ plan: LimitPlan, _ clients: [String]) throws {
    self.plan = plan
    self.clients = clients
    let directory = try TemporaryDirectory()
    self.directory = directory
    own = SharedStore(
      path: directory.file("breakers.db"),
      options: StoreOptions(lockTimeout: .seconds(1), onStoreFailure: .throw))
    let rate = LimitPlan.rates[0]
    let policy = try BreakerPolicy(
      words: "max-concurrent=\(LimitPlan.limit) queue=\(plan.places)"
        + " queue-timeout=\(plan.patience) lost-calls=failure max-failures=1000000"
        + (plan.reserved > 0 ? " reserve=\(plan.reserved)" : "")
        + (plan.kind == .holds ? " ramp-up=\(LimitPlan.rampUp)ms" : "")
        + (plan.kind == .rates ? " rate=\(rate.text) retry-budget=\(LimitPlan.retryBudget)%" : ""))
    breaker = try own.breaker("api", policy: policy)
    // From now on there is a page.
    try breaker.run {}
    witness = try Witness(
      path: directory.file("witness"),
      LimitReferee(limit: LimitPlan.limit, reserved: plan.reserved, at: Witness.now))
    if plan.kind == .rates {
      witness.withReferee { $0.rateHasChanged(to: rate, at: Witness.now) }
    }
  }

  func run() throws -> [Violation] {
    for _ in 0..<LimitPlan.workers { members.append(try startWorker()) }
    for number in 0..<LimitPlan.commanders {
      let habit = plan.kind == .kills || plan.kind == .mixed ? ["kill"] : []
      let program = BuiltProducts.path(of: "torture")
      commanders.append(try start(program, "limit-commander", named: "c\(number)", habit))
    }
    let dead = RoomOfTheDead(of: "api", inStoreAt: store)
    let end = Witness.now + Int64(plan.seconds) * 1_000_000_000
    while Witness.now < end {
      usleep(plan.nextPause())
      try carryOut(plan.nextFault())
      resume(before: Witness.now)
    }
    witness.withReferee { $0.rateWillChange(at: Witness.now) }
    tally.handovers = dead.end()
    resume(before: .max)
    rest()
    try judgeRoom()
    if plan.kind != .pages { judgeLostCalls() }
    try judgeOrder()
    return found
      + witness.withReferee { referee in
        tally.take(referee)
        return referee.violations
      }
  }

  private func startWorker() throws -> Member {
    let client = clients[started % clients.count]
    started += 1
    let name = "w\(started)"
    return Member(child: try start(client, "limit-worker", named: name, plan.habits), name: name)
  }

  private func start(
    _ program: String, _ role: String, named name: String, _ habits: [String]
  ) throws -> Child {
    tally.processes += 1
    let words = [role, witness.path, store, name, "\(plan.random.next() >> 1)"] + habits
    return try Child(program, words)
  }

  /// Waits until a condition holds, which nothing but a mistake of the product can prevent.
  private func awaits(_ condition: () -> Bool) -> Bool {
    let end = Witness.now + 120_000_000_000
    while Witness.now < end {
      if condition() { return true }
      usleep(5_000)
    }
    return false
  }
}

/// Faults.
extension LimitPhase {
  private func carryOut(_ fault: LimitPlan.Fault) throws {
    var number = plan.random.number(0...members.count - 1)
    // The fate of a process that has room says more.
    let busy = witness.withReferee { referee in
      members.indices.filter { referee.isUnderWay(members[$0].name) }
    }
    if plan.random.number(0...3) != 0, !busy.isEmpty { number = plan.random.pick(busy) }
    switch fault {
    case .change(let limit): try change(to: limit)
    case .kill: try kill(number)
    case .stop: stop(number)
    case .losePage(let how): try losePage(how)
    case .hold(let milliseconds): try hold(milliseconds)
    case .changeRate(let rate): try change(to: rate)
    }
  }

  private func change(to limit: Int) throws {
    tally.changes += 1
    witness.withReferee { $0.limitWillChange(to: limit, at: Witness.now) }
    try override(.maxConcurrent, "\(limit)")
    witness.withReferee { $0.limitHasChanged(at: Witness.now) }
  }

  private func change(to rate: LimitPlan.Rate) throws {
    tally.changes += 1
    witness.withReferee { $0.rateWillChange(at: Witness.now) }
    try override(.rate, rate.text)
    witness.withReferee { $0.rateHasChanged(to: rate, at: Witness.now) }
  }

  /// Holds all calls, as an answer 429 does.
  private func hold(_ milliseconds: Int) throws {
    tally.holds += 1
    witness.withReferee { $0.willBeHeld() }
    var start: Int64 = 0
    try written {
      start = Witness.now
      try breaker.hold(for: .milliseconds(milliseconds))
    }
    let length = Int64(milliseconds) * 1_000_000
    witness.withReferee { $0.isHeld(from: start, for: length, since: Witness.now) }
  }

  /// Changes the policy.
  private func override(_ key: PolicyKey, _ value: String) throws {
    try written { try breaker.overridePolicy(set: [key: value]) }
  }

  /// Writes to the store, and lets those go on meanwhile that were stopped while they held it.
  private func written(_ body: () throws -> Void) throws {
    let end = Witness.now + 600_000_000_000
    while true {
      do {
        return try body()
      } catch BreakerError.store(let trouble) where trouble.kind == .busy && Witness.now < end {
        resume(before: Witness.now)
      }
    }
  }

  private func kill(_ number: Int) throws {
    tally.kills += 1
    let member = members[number]
    later.removeAll { $0.name == member.name }
    if !member.isStopped { member.child.stop() }
    // Its room can be another's as soon as it is dead, and that is before a process can see it.
    witness.withReferee { $0.hear("gone \(member.name)", at: Witness.now) }
    member.child.kill()
    witness.withReferee { $0.hear("dead \(member.name)", at: Witness.now) }
    members[number] = try startWorker()
    if plan.kind == .losses { awaitRecord() }
  }

  /// Waits until all losses are recorded, so that no process dies that has yet to record one.
  private func awaitRecord() {
    let start = Witness.now
    let least = witness.withReferee { $0.lost.least }
    guard awaits({ recorded >= least }) else {
      found.append(Violation(.lostCall, "\(recorded) of \(least) are recorded"))
      return
    }
    tally.longestRecord = max(tally.longestRecord, Witness.now - start)
  }

  /// How many calls are recorded as lost.
  private var recorded: Int { Int((try? own.snapshot(of: "api"))?.totals.lostCalls ?? 0) }

  private func stop(_ number: Int) {
    guard !members[number].isStopped else { return }
    tally.stops += 1
    members[number].isStopped = true
    let name = members[number].name
    witness.withReferee { $0.stop(name) }
    members[number].child.stop()
    later.append((Witness.now + Int64(plan.random.number(1...600)) * 1_000_000, name))
  }

  private func resume(before time: Int64) {
    for (_, name) in later.filter({ $0.at <= time }) {
      guard let number = members.firstIndex(where: { $0.name == name }) else { continue }
      members[number].child.resume()
      members[number].isStopped = false
      witness.withReferee { $0.resume(name) }
    }
    later.removeAll { $0.at <= time }
  }

  /// Deletes the page, or puts something else in its place.
  private func losePage(_ how: Int) throws {
    tally.pages += 1
    let page = store + "-slots"
    let spare = directory.file("spare")
    witness.withReferee { $0.pageIsLost(at: Witness.now) }
    let bytes = Files.exists(page) ? try Files.read(page) : []
    switch how {
    case 0: Files.removeAll(page)
    // A copy has the same calls under way, of which those that live know nothing.
    case 1: try Files.write(spare, bytes)
    case 2: try Files.write(spare, Array(bytes.prefix(270_000)))
    default: try Files.write(spare, [1] + bytes.dropFirst())
    }
    if how != 0 { try Files.rename(spare, to: page) }
    witness.withReferee { $0.pageIsLost(at: Witness.now) }
  }
}

/// The end of a phase.
extension LimitPhase {
  /// More units than any limit, so all that there are.
  static let all = 1_000

  /// How long it may take until all room is free, in nanoseconds.
  private static let mostRest: Int64 = 3_000_000_000

  /// Lets all processes end, and checks that they do.
  private func rest() {
    witness.end()
    for (name, child) in members.map({ ($0.name, $0.child) })
      + commanders.map({ ("a commander", $0) })
    {
      do {
        _ = try child.rest()
        let code = child.waitForEnd()
        if code != 0 { found.append(Violation(.death, "\(name) ended with \(code)")) }
      } catch {
        found.append(Violation(.stuck, "\(name): \(error)"))
        child.kill()
      }
    }
    // Children of forks outlive those that were killed.
    if !awaits({ witness.withReferee { $0.open } == 0 }) {
      found.append(Violation(.stuck, "calls do not end"))
    }
  }

  /// A call that takes all of the limit has room once nothing is under way.
  private func judgeRoom() throws {
    // A turn under a rate may come later than callers have waited for so far.
    if plan.kind == .rates { try override(.queueTimeout, "1m") }
    do {
      let start = Witness.now
      try breaker.claiming(units: Self.all).run {}
      tally.longestRest = Witness.now - start
      witness.withReferee { $0.allRoomIsFree() }
      if tally.longestRest > Self.mostRest {
        found.append(Violation(.lostRoom, "nothing is under way, but it took time to see that"))
      }
    } catch BreakerError.rejected {
      let limit = breaker.snapshot().limit
      found.append(Violation(.lostRoom, "nothing is under way, but \(limit as Any)"))
    }
  }

  /// Each call that was under way when its process was killed is a failure, once.
  ///
  /// The process that has noticed it may be killed before it records it, so only a phase without such
  /// kills tells whether all of them are recorded.
  private func judgeLostCalls() {
    if plan.kind == .losses { awaitRecord() }
    let count = recorded
    tally.lost = count
    witness.withReferee { $0.judge(lostCalls: count, areAll: plan.kind == .losses) }
  }

  /// Callers that come one after the other have their turn in this order.
  ///
  /// On a busy host one may get no processor for so long that the others go on without it, so there are
  /// several attempts: a queue without an order would pass none of them.
  private func judgeOrder() throws {
    try change(to: 1 + plan.reserved)
    // All of them have to start before the first one gives up.
    try override(.queueTimeout, "1h")
    for attempt in 0..<10 {
      let came = try lineUp("q\(attempt)n")
      let isInOrder = witness.withReferee { $0.beganInOrder(came) }
      if isInOrder { return }
    }
    found.append(Violation(.outOfTurn, "\(witness.withReferee { $0.beganInQuiet })"))
  }

  /// Lets some callers come while there is no room; returns them in the order in which they came.
  private func lineUp(_ prefix: String) throws -> [(call: String, isBackground: Bool)] {
    witness.withReferee { $0.beQuiet() }
    // Each takes all that it may, so that one begins after the other.
    let permit = try breaker.claiming(units: Self.all).acquire()
    var came: [(call: String, isBackground: Bool)] = []
    var callers: [Child] = []
    for number in 0...2 * clients.count {
      let isBackground = plan.random.number(0...2) == 0
      let call = "\(prefix)\(number).1"
      came.append((call, isBackground))
      callers.append(try startCaller(call, isBackground, number))
      let isThere = awaits { breaker.snapshot().limit?.waiters.count == callers.count }
      if !isThere { found.append(Violation(.stuck, "caller \(number) does not wait")) }
    }
    permit.succeed()
    for caller in callers where caller.waitForEnd() != 0 {
      found.append(Violation(.death, "a caller that waited has failed"))
    }
    // The words of a command are followed by its end, which comes a moment later.
    for (call, _) in came { witness.withReferee { $0.hear("ended \(call) ran", at: Witness.now) } }
    return came
  }

  /// Starts what makes one call: `cbctl` and the clients in turn, from a thread and from a task.
  private func startCaller(_ call: String, _ isBackground: Bool, _ number: Int) throws -> Child {
    tally.processes += 1
    let priority = isBackground ? "background" : "ordinary"
    witness.withReferee {
      $0.hear("want \(call) \(Self.all) \(priority) \(Witness.now)", at: Witness.now)
    }
    if number == 0 {
      let words = LimitCommander.words(
        call, units: Self.all, inBackground: isBackground, microseconds: 1_000, store: store,
        socket: witness.path)
      return try Child(BuiltProducts.path(of: "cbctl"), words)
    }
    let kind = number / clients.count % 2 == 0 ? "thread" : "task"
    return try Child(
      clients[number % clients.count],
      ["limit-caller", witness.path, store, call, priority, kind])
  }
}

/// Counts and times of some phases.
struct LimitTally {
  var processes = 0
  var kills = 0
  var stops = 0
  var changes = 0
  var pages = 0
  var holds = 0
  var lost = 0

  /// How long it took until lost calls were recorded, in nanoseconds.
  var longestRecord: Int64 = 0

  /// How long it took until all room was free once nothing was under way, in nanoseconds.
  var longestRest: Int64 = 0
  private var begun = 0
  private var turnedAway = 0
  private var cancelled = 0
  private var mostOvertaken = 0
  private var longestWait: Int64 = 0
  private var retries = 0
  private var rated = 0
  private var permittedByRate: Double = 0

  /// How long the room of the dead was kept from the waiters, in nanoseconds.
  var handovers: [Int64] = []

  mutating func take(_ referee: LimitReferee) {
    begun = referee.begun
    turnedAway = referee.turnedAway
    cancelled = referee.cancelled
    mostOvertaken = referee.mostOvertaken
    longestWait = referee.longestWait
    (retries, rated, permittedByRate) = (referee.retries, referee.rated, referee.permittedByRate)
  }

  static func += (left: inout LimitTally, right: LimitTally) {
    left.processes += right.processes
    left.kills += right.kills
    left.stops += right.stops
    left.changes += right.changes
    left.pages += right.pages
    left.holds += right.holds
    left.lost += right.lost
    left.longestRecord = max(left.longestRecord, right.longestRecord)
    left.longestRest = max(left.longestRest, right.longestRest)
    left.begun += right.begun
    left.turnedAway += right.turnedAway
    left.cancelled += right.cancelled
    left.mostOvertaken = max(left.mostOvertaken, right.mostOvertaken)
    left.longestWait = max(left.longestWait, right.longestWait)
    left.retries += right.retries
    left.rated += right.rated
    left.permittedByRate += right.permittedByRate
    left.handovers += right.handovers
  }

  var text: String {
    let sorted = handovers.sorted()
    func milliseconds(_ share: Int) -> String {
      guard !sorted.isEmpty else { return "-" }
      return "\(sorted[min(sorted.count - 1, sorted.count * share / 100)] / 1_000_000)"
    }
    return "processes \(processes), kills \(kills), stops \(stops), changes \(changes),"
      + " pages lost \(pages), holds \(holds), calls \(begun), turned away \(turnedAway), cancelled \(cancelled),"
      + " retries \(retries), calls under a rate \(rated) of \(Int(permittedByRate)),"
      + " lost calls \(lost), recorded within \(longestRecord / 1_000_000) ms, longest wait \(longestWait / 1_000_000) ms,"
      + " overtaken by \(mostOvertaken), room of the dead free \(sorted.count) times in"
      + " \(milliseconds(50)) ms (median), \(milliseconds(99)) ms (99 of 100),"
      + " \(milliseconds(100)) ms (most), all of it within \(longestRest / 1_000_000) ms"
  }
}
