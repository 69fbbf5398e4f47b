/// Judges calls under a limit by what they say themselves, and never by what the product has noted.
///
/// A call says that it holds its room after it got it, and that it is about to leave before it gives it
/// back, and waits each time until it was heard. So whatever is under way here has room in truth. Three
/// things keep the referee from crying wolf:
///
/// - *The dead.* The kernel frees the room of a killed process before the witness can see that its
///   connections are closed. So a process is stopped first, then left out here, and killed last: no
///   other process can have its room before it has ceased to count.
/// - *Changes of the limit.* A limit counts from before it is set until after the next one has been set.
///   The sum is compared with the largest that was in force at any time since the call was asked for.
///   Of those that are under way, the one that got its room last got it within that time, beside all the
///   others, under the limit of that moment.
/// - *A lost page.* Calls that were asked for before all processes must have noticed it neither
///   count nor are judged. Those of them that wait may be overtaken until then.
struct LimitReferee: Sendable {
  private struct Call {
    enum State { case waiting, underWay, leaving }

    var life: String
    var units: Int
    var isBackground: Bool
    var asked: Int64
    var isRetry: Bool
    var state = State.waiting

    /// The units that it takes at least; a call that asks for more than the limit takes all of it.
    var weight = 0
    var isJudged = true

    /// How many later calls have begun before it.
    var overtaken = 0
  }

  /// A limit, and when it may have been in force.
  private struct Limit {
    var units: Int
    var from: Int64
    var until = Int64.max
  }

  /// Room of a process that has died, until it is proved that another process had it.
  private struct Estate {
    var life: String
    var weight: Int
    var died: Int64?

    /// How many calls have begun since.
    var begun = 0
  }

  private var calls: [String: Call] = [:]
  private var limits: [Limit]
  private let reserved: Int
  private var estates: [Estate] = []

  /// The killed processes, and the earlier programs of the living ones.
  private var killed: Set<String> = []
  private var replaced: Set<String> = []
  private var stopped: Set<String> = []

  /// Since when calls are judged again after the page was lost.
  private var judgedSince = Int64.min
  private var begunInQuiet: [String]?

  /// The latest hold; nil while none is certain.
  private var hold: Hold?

  /// The rate; nil while none is certain.
  private var rate: Rate?
  private var isRated = false

  /// How many calls that were made again have begun.
  private(set) var retries = 0

  /// How many first attempts may have ended; the first was the call that made the page.
  private var attempts = 1
  private let start: Int64

  /// How many calls have begun under a rate, and how many could have.
  private(set) var rated = 0
  private(set) var permittedByRate: Double = 0

  private(set) var violations: [Violation] = []

  /// Counts for the line that the run prints.
  private(set) var begun = 0
  private(set) var turnedAway = 0
  private(set) var cancelled = 0
  private(set) var mostOvertaken = 0

  /// How long an ordinary call has waited before it began.
  private(set) var longestWait: Int64 = 0

  /// How many calls were under way when their process was killed, at least and at most.
  private(set) var lost = (least: 0, most: 0)

  /// How many calls may begin, and how much time may pass, before room of the dead counts as lost.
  private static let patience = (calls: 500, time: Int64(2_000_000_000))

  /// How many later calls may begin before one that waits, and how much later they are.
  private static let indulgence = (calls: 1_000, time: Int64(1_000_000_000))

  /// When all processes must have noticed that the page was replaced: a second, and a margin for a
  /// busy host.
  private static let notice: Int64 = 3_000_000_000

  init(limit: Int, reserved: Int = 0, at now: Int64) {
    limits = [Limit(units: limit, from: now)]
    self.reserved = reserved
    start = now
  }

  /// A time in which no call begins, and the ramp after it.
  ///
  /// It is about the calls that were asked for since it was in force for certain: they were decided later.
  private struct Hold {
    var end: Int64
    var length: Int64
    var since: Int64

    /// The call that went first, and when it was about to end.
    var first: String?
    var firstLeft: Int64?

    /// Whether a call has begun that was asked for before: it may have waited, and gone first.
    var hasOlder = false

    /// The units of the calls that were about to end since: no more can have succeeded.
    var left = 0
  }

  /// A rate, and the calls that were asked for since it was in force for certain.
  ///
  /// Each has begun at some instant after it was asked for, and before it said that it has its room.
  private struct Rate {
    var calls: Int
    var interval: Int64
    var start: Int64
    var since: Int64

    /// When those that have begun were asked for, the earliest first.
    var asked: [Int64] = []

    /// How many of the latest are compared with each other.
    static let most = 2_000
  }

  private mutating func complain(_ kind: Violation.Kind, _ text: String) {
    if violations.count < 50 { violations.append(Violation(kind, text)) }
  }

  /// Whether a process has a call under way.
  func isUnderWay(_ process: String) -> Bool {
    calls.values.contains { $0.state == .underWay && Self.process(of: $0.life) == process }
  }

  /// How many calls wait, are under way, or are about to end.
  var open: Int { calls.count }
}

/// The statements of the calls.
extension LimitReferee {
  /// Hears one line; the words are those of `Witness.Word`.
  mutating func hear(_ line: String, at now: Int64) {
    let words = line.split(separator: " ").map { String($0) }
    let name = words.count > 1 ? words[1] : ""
    switch (words.first, words.count) {
    case ("want", 5), ("want", 6):
      guard let units = Int(words[2]), let asked = Int64(words[4]) else { break }
      let call = Call(
        life: Self.life(of: name), units: units, isBackground: words[3] == "background",
        asked: asked, isRetry: words.last == "retry")
      if !isGone(call.life) { calls[name] = call }
      return
    case ("hold", 2): return begin(name, at: now)
    case ("left", 2):
      if calls[name]?.isRetry == false { attempts += 1 }
      calls[name]?.state = .leaving
      return noteLeaving(of: name, at: now)
    case ("ended", 3): return end(name, words[2])
    case ("gone", 2): return die(name, isKilled: true)
    case ("replaced", 2): return die(name, isKilled: false)
    case ("dead", 2): return noteDeath(of: name, at: now)
    case ("odd", _):
      return complain(.wrongAnswer, words.dropFirst().joined(separator: " "))
    default: break
    }
    complain(.wrongAnswer, "'\(line)' makes no sense")
  }

  /// The process, or what it ran until it ran another program, to which a call belongs.
  private static func life(of call: String) -> String {
    call.split(separator: ".").first.map { String($0) } ?? call
  }

  /// The process of a life, whatever programs it has run.
  private static func process(of life: String) -> String {
    life.split(separator: "x").first.map { String($0) } ?? life
  }

  private func isGone(_ life: String) -> Bool {
    replaced.contains(life) || killed.contains(Self.process(of: life))
  }

  private mutating func begin(_ name: String, at now: Int64) {
    guard var call = calls[name] else {
      if !isGone(Self.life(of: name)) { complain(.wrongAnswer, "\(name) was never asked for") }
      return
    }
    let inForce = limits.filter { $0.from <= now && $0.until >= call.asked }.map(\.units)
    let (least, most) = (inForce.min() ?? 0, inForce.max() ?? 0)
    call.state = .underWay
    call.weight = min(call.units, call.isBackground ? least - reserved : least)
    call.isJudged = call.asked >= judgedSince
    calls[name] = call
    begun += 1
    if !call.isBackground { longestWait = max(longestWait, now - call.asked) }
    mostOvertaken = max(mostOvertaken, call.overtaken)
    begunInQuiet?.append(name)
    noteOvertaking(by: call)
    judgeHold(name, call, at: now)
    judgeRate(name, call, at: now)
    if call.isRetry { judgeBudget(name, at: now) }
    guard call.isJudged else { return }
    judge(name, call, under: most)
    settleEstates(under: most, at: now)
  }

  private mutating func judge(_ name: String, _ call: Call, under limit: Int) {
    let units = unitsUnderWay { _ in true }
    if units > limit {
      complain(.tooManyUnderWay, "\(units) units of at most \(limit) with \(name): \(holders)")
    }
    let background = unitsUnderWay(\.isBackground)
    if call.isBackground, background > limit - reserved {
      let words = "\(background) units in the background of at most \(limit) - \(reserved)"
      complain(.tooManyUnderWay, "\(words) with \(name): \(holders)")
    }
  }

  private func unitsUnderWay(_ isMeant: (Call) -> Bool) -> Int {
    calls.values.reduce(0) { sum, call in
      sum + (call.state == .underWay && call.isJudged && isMeant(call) ? call.weight : 0)
    }
  }

  private var holders: String {
    calls.filter { $0.value.state == .underWay && $0.value.isJudged }
      .map { "\($0.key) has \($0.value.weight)" }.sorted().joined(separator: ", ")
  }

  private mutating func end(_ name: String, _ answer: String) {
    guard let call = calls.removeValue(forKey: name) else { return }
    switch answer {
    case "ran":
      if call.state != .leaving { complain(.wrongAnswer, "\(name) has ended without a beginning") }
    case "busy": turnedAway += 1
    case "cancelled": cancelled += 1
    default: complain(.wrongAnswer, "\(name) was told \(answer)")
    }
  }

  /// A connection was closed on which a call spoke; with `isOwner`, it was asked for there.
  mutating func hangUp(_ name: String, isOwner: Bool) {
    guard let call = calls[name], isOwner || call.state == .underWay else { return }
    calls[name] = nil
    complain(.death, "the process of \(name) has died, which nobody killed")
  }
}

/// Deaths.
extension LimitReferee {
  private mutating func die(_ name: String, isKilled: Bool) {
    if isKilled { killed.insert(name) } else { replaced.insert(name) }
    for (key, call) in calls where isGone(call.life) {
      calls[key] = nil
      lost.most += 1
      if !call.isRetry { attempts += 1 }
      guard call.state == .underWay else { continue }
      if isKilled { lost.least += 1 }
      if call.isJudged { estates.append(Estate(life: call.life, weight: call.weight)) }
    }
  }

  /// A process is dead for certain, or has run another program.
  private mutating func noteDeath(of name: String, at now: Int64) {
    for index in estates.indices where estates[index].died == nil {
      let life = estates[index].life
      if life == name || Self.process(of: life) == name { estates[index].died = now }
    }
  }

  /// Room is proved to be free again if what is under way, and all that the dead had, is too much.
  private mutating func settleEstates(under limit: Int, at now: Int64) {
    var total = unitsUnderWay { _ in true } + estates.reduce(0) { $0 + $1.weight }
    while total > limit, !estates.isEmpty {
      total -= estates.removeFirst().weight
    }
    // Under a rate there is mostly room, so calls prove nothing by not taking that of the dead.
    if isRated { return }
    for index in estates.indices where estates[index].died != nil { estates[index].begun += 1 }
    let late = estates.filter { estate in
      estate.begun > Self.patience.calls
        && now - (estate.died ?? now) > Self.patience.time
    }
    for estate in late {
      complain(.lostRoom, "nobody had the room of \(estate.life), after \(estate.begun) calls")
    }
    if !late.isEmpty { estates = [] }
  }

  /// A call has proved that no process has any room.
  mutating func allRoomIsFree() { estates = [] }

  /// Compares the calls that were recorded as lost with those that were; with `areAll`, no process
  /// was killed that may have noticed them and not recorded them yet.
  mutating func judge(lostCalls: Int, areAll: Bool) {
    if areAll, lostCalls < lost.least {
      complain(.lostCall, "\(lostCalls) of \(lost.least) are recorded")
    }
    if lostCalls > lost.most {
      complain(.inventedLoss, "\(lostCalls) of \(lost.most) are recorded")
    }
  }
}

/// The limit.
extension LimitReferee {
  /// From now on, another limit may be in force beside the one that is.
  mutating func limitWillChange(to units: Int, at now: Int64) {
    limits.append(Limit(units: units, from: now))
  }

  /// From now on, no call that is asked for knows an earlier limit.
  mutating func limitHasChanged(at now: Int64) {
    for index in limits.indices.dropLast() { limits[index].until = min(limits[index].until, now) }
    // No later call needs a limit that ended before the oldest call was asked for.
    let oldest = calls.values.map(\.asked).min() ?? now
    limits.removeAll { $0.until < oldest && $0.until < now }
  }

  /// The page was taken away or damaged: what is under way then is not known to those that come later.
  mutating func pageIsLost(at now: Int64) {
    judgedSince = now + Self.notice
    for name in calls.keys {
      calls[name]?.isJudged = false
      // The waiters go over to the next page.
      calls[name]?.overtaken = 0
    }
    estates = []
    if rate != nil { rate?.since = judgedSince }
    rate?.asked = []
  }
}

/// Rates, and the budget for retries.
extension LimitReferee {
  /// From now on, another rate may be in force.
  mutating func rateWillChange(at now: Int64) {
    if let rate {
      permittedByRate += Double(rate.calls) * Double(now - rate.start) / Double(rate.interval)
    }
    rate = nil
  }

  /// From now on, each call that is asked for begins under a rate.
  mutating func rateHasChanged(to rate: LimitPlan.Rate, at now: Int64) {
    isRated = true
    self.rate = Rate(
      calls: rate.calls, interval: Int64(rate.milliseconds) * 1_000_000, start: now,
      since: max(now, judgedSince))
  }

  private mutating func judgeRate(_ name: String, _ call: Call, at now: Int64) {
    guard var rate else { return }
    rated += 1
    guard call.asked >= rate.since else { return }
    let place = (rate.asked.lastIndex { $0 <= call.asked } ?? -1) + 1
    rate.asked.insert(call.asked, at: place)
    if rate.asked.count > Rate.most { rate.asked.removeFirst() }
    self.rate = rate
    // Of all of these it is certain that they have begun since the earliest of them was asked for.
    for (others, asked) in rate.asked.reversed().enumerated() {
      let least = Int64(others / rate.calls) * rate.interval
      guard now - asked < least else { continue }
      return complain(
        .tooFast,
        "\(others + 1) calls began within \(now - asked) ns, which take \(least), with \(name)")
    }
  }

  private mutating func judgeBudget(_ name: String, at now: Int64) {
    retries += 1
    // Ten a second, and the first second may have been nearly over when it began.
    let seconds = Int((now - start) / 1_000_000_000) + 2
    let most = attempts * LimitPlan.retryBudget / 100 + 10 * seconds
    guard retries > most else { return }
    complain(
      .tooManyRetries, "\(retries) with \(name), after \(attempts) first attempts in \(seconds) s")
  }
}

/// Holds, and the ramps after them.
extension LimitReferee {
  /// From now on, another hold may be in force.
  mutating func willBeHeld() { hold = nil }

  /// A hold began no earlier than at `start`, and has been in force for certain since `now`.
  mutating func isHeld(from start: Int64, for length: Int64, since now: Int64) {
    hold = Hold(end: start + length, length: length, since: now)
  }

  private mutating func noteLeaving(of name: String, at now: Int64) {
    guard let call = calls[name], hold != nil else { return }
    // A call counts as well that began before the hold.
    hold?.left += call.units
    if hold?.first == name, hold?.firstLeft == nil { hold?.firstLeft = now }
  }

  private mutating func judgeHold(_ name: String, _ call: Call, at now: Int64) {
    guard let hold else { return }
    guard call.asked > hold.since else {
      self.hold?.hasOlder = true
      return
    }
    if now < hold.end { complain(.inHold, "\(name) began \(hold.end - now) ns before the end") }
    if let first = hold.first, calls[first] != nil || hold.firstLeft != nil {
      // The others may go once the first one has taken as long as the hold did.
      if hold.firstLeft == nil, !hold.hasOlder, now < hold.end + hold.length {
        complain(.inHold, "\(name) goes first beside \(first)")
      }
    } else {
      // Any that has gone first before has died.
      self.hold?.first = name
    }
    let units = calls.values.reduce(0) { sum, other in
      sum + (other.state == .underWay && other.asked > hold.since ? other.weight : 0)
    }
    let start = max(hold.end, hold.firstLeft ?? hold.end)
    guard now < start + Int64(LimitPlan.rampUp) * 1_000_000, units > call.weight,
      units > hold.left + 1
    else { return }
    complain(.inRamp, "\(units) units with \(name), after \(hold.left): \(holders)")
  }
}

/// Order.
extension LimitReferee {
  private mutating func noteOvertaking(by call: Call) {
    guard !call.isBackground else { return }
    for (name, other) in calls where other.state == .waiting && !other.isBackground {
      guard call.asked > max(other.asked + Self.indulgence.time, judgedSince),
        !stopped.contains(Self.process(of: other.life))
      else { continue }
      calls[name]?.overtaken += 1
      if other.overtaken == Self.indulgence.calls {
        complain(.starved, "\(name) of \(other.units) units waits for ever")
      }
    }
  }

  /// A process is stopped, so others may go before its calls.
  mutating func stop(_ life: String) { stopped.insert(life) }

  mutating func resume(_ life: String) {
    stopped.remove(life)
    for (name, call) in calls where Self.process(of: call.life) == life {
      calls[name]?.overtaken = 0
    }
  }

  /// From now on, it is noted which calls begin.
  mutating func beQuiet() { begunInQuiet = [] }

  /// Whether calls have begun in the order in which they came, ordinary ones first.
  func beganInOrder(_ came: [(call: String, isBackground: Bool)]) -> Bool {
    let expected = came.filter { !$0.isBackground } + came.filter(\.isBackground)
    return begunInQuiet == expected.map(\.call)
  }

  /// The calls that have begun since nothing disturbed them.
  var beganInQuiet: String { begunInQuiet?.joined(separator: " ") ?? "" }
}
