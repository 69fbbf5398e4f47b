internal import BreakerCore

/// Small values packed into bytes: 64-bit integers, least significant byte first.
///
/// Bytes that cannot be decoded read as empty. They are statistics, and damage to them must not
/// keep a breaker from working.
enum Blobs {
  static func pack(_ numbers: [Int64]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(numbers.count * 8)
    for number in numbers {
      for shift in stride(from: 0, to: 64, by: 8) {
        bytes.append(UInt8(truncatingIfNeeded: number >> Int64(shift)))
      }
    }
    return bytes
  }

  static func unpack(_ bytes: some Collection<UInt8>) -> [Int64] {
    var numbers: [Int64] = []
    var rest = bytes[...]
    while rest.count >= 8 {
      var number: UInt64 = 0
      for byte in rest.prefix(8).reversed() { number = number << 8 | UInt64(byte) }
      numbers.append(Int64(bitPattern: number))
      rest = rest.dropFirst(8)
    }
    return numbers
  }
}

/// The failure times and the outage times of a record.
extension Blobs {
  static func pack(_ instants: [Instant]) -> [UInt8]? {
    instants.isEmpty ? nil : pack(instants.map(\.nanoseconds))
  }

  static func instants(_ bytes: [UInt8]?) -> [Instant] {
    unpack(bytes ?? []).map { Instant(nanoseconds: $0) }
  }
}

/// The reporters of a record.
extension Blobs {
  static func pack(_ reporters: [Reporter]) -> [UInt8]? {
    guard !reporters.isEmpty else { return nil }
    return pack(
      reporters.flatMap {
        [
          Int64($0.evidence.rawValue), Int64($0.process.pid),
          Int64(bitPattern: $0.process.startTicks),
          Int64(bitPattern: $0.process.pidNamespace), $0.at.nanoseconds, $0.call,
        ]
      })
  }

  static func reporters(_ bytes: [UInt8]?) -> [Reporter] {
    let numbers = unpack(bytes ?? [])
    return stride(from: 0, to: numbers.count - numbers.count % 6, by: 6).compactMap { at in
      guard let evidence = Reporter.Evidence(rawValue: Int(numbers[at])) else { return nil }
      let process = ProcessIdentity(
        pid: Int32(truncatingIfNeeded: numbers[at + 1]),
        startTicks: UInt64(bitPattern: numbers[at + 2]),
        pidNamespace: UInt64(bitPattern: numbers[at + 3]))
      return Reporter(
        process: process, evidence: evidence, at: Instant(nanoseconds: numbers[at + 4]),
        call: numbers[at + 5])
    }
  }
}

/// The call window of a record: its kind, its size, and its counts.
extension Blobs {
  private static let timeKind: Int64 = 1
  private static let lastKind: Int64 = 2

  static func pack(_ window: CallWindow) -> [UInt8]? {
    switch window {
    case .none:
      return nil
    case .time(let window):
      let buckets = window.buckets.flatMap {
        [$0.epoch, $0.counts.calls, $0.counts.failures, $0.counts.slow]
      }
      return pack([timeKind, window.length] + buckets)
    case .last(let window):
      return pack([lastKind, Int64(window.capacity), window.sequence]) + window.calls
    }
  }

  static func window(_ bytes: [UInt8]?) -> CallWindow {
    guard let bytes else { return .none }
    switch unpack(bytes.prefix(8)).first {
    case timeKind: return timeWindow(unpack(bytes)).map { .time($0) } ?? .none
    case lastKind: return lastCallsWindow(bytes).map { .last($0) } ?? .none
    default: return .none
    }
  }

  private static func timeWindow(_ numbers: [Int64]) -> TimeWindow? {
    guard numbers.count == 2 + TimeWindow.bucketCount * 4, numbers[1] > 0,
      numbers.dropFirst(2).allSatisfy({ $0 >= -1 && $0 < .max / 16 })
    else { return nil }
    var window = TimeWindow(length: numbers[1])
    for index in 0..<TimeWindow.bucketCount {
      let at = 2 + index * 4
      window.buckets[index].epoch = numbers[at]
      window.buckets[index].counts.calls = numbers[at + 1]
      window.buckets[index].counts.failures = numbers[at + 2]
      window.buckets[index].counts.slow = numbers[at + 3]
    }
    return window
  }

  private static func lastCallsWindow(_ bytes: [UInt8]) -> LastCallsWindow? {
    let numbers = unpack(bytes.prefix(24))
    let calls = Array(bytes.dropFirst(24))
    guard numbers.count == 3, (1...10_000).contains(numbers[1]), numbers[2] >= 0,
      numbers[2] < .max / 2, Int64(calls.count) == min(numbers[1], numbers[2])
    else { return nil }
    var window = LastCallsWindow(capacity: Int(numbers[1]))
    window.sequence = numbers[2]
    window.calls = calls
    return window
  }
}

/// All that a row keeps about holds, ramps, rates and retries.
struct StoredHolds {
  var generationOfState: Int64
  var record = HoldRecord()

  /// The totals, and how much of the counters they have taken in.
  var holds: Int64 = 0
  var held: Int64 = 0
  var ramping: Int64 = 0
  var overRate: Int64 = 0
  var retries: Int64 = 0
  var overBudget: Int64 = 0
  var heldTakenIn: Int64 = 0
  var rampingTakenIn: Int64 = 0
  var overRateTakenIn: Int64 = 0
  var retriesTakenIn: Int64 = 0
  var overBudgetTakenIn: Int64 = 0
  var rampUntil: Instant?
  var rampHeadStart: Int64 = 0

  /// Of a breaker that was never held, whose generation only changes of the state have raised.
  init(generation: Int64) { generationOfState = generation }

  init(of record: BreakerRecord, takenIn: Counted) {
    generationOfState = record.generationOfState
    self.record = record.holds
    holds = record.totals.holds
    held = record.totals.held
    ramping = record.totals.ramping
    overRate = record.totals.overRate
    (retries, overBudget) = (record.totals.retries, record.totals.overBudget)
    (heldTakenIn, rampingTakenIn) = (takenIn.held, takenIn.ramping)
    overRateTakenIn = takenIn.overRate
    (retriesTakenIn, overBudgetTakenIn) = (takenIn.retries, takenIn.overBudget)
    (rampUntil, rampHeadStart) = (record.rampUntil, record.rampHeadStart)
  }

  func restore(_ record: inout BreakerRecord, takenIn: inout Counted) {
    record.generationOfState = generationOfState
    record.holds = self.record
    record.totals.holds = holds
    record.totals.held = held
    record.totals.ramping = ramping
    record.totals.overRate = overRate
    (record.totals.retries, record.totals.overBudget) = (retries, overBudget)
    (takenIn.held, takenIn.ramping) = (heldTakenIn, rampingTakenIn)
    takenIn.overRate = overRateTakenIn
    (takenIn.retries, takenIn.overBudget) = (retriesTakenIn, overBudgetTakenIn)
    (record.rampUntil, record.rampHeadStart) = (rampUntil, rampHeadStart)
  }
}

/// All about holds: numbers, and then the texts of a hold if there is one.
extension Blobs {
  private static let numbersWithoutHold = 18
  private static let numbersOfHold = 13

  static func pack(_ stored: StoredHolds) -> [UInt8] {
    let numbers = [
      stored.generationOfState, stored.record.number, stored.record.least, stored.record.unnamed,
      stored.holds, stored.held, stored.ramping, stored.overRate, stored.retries,
      stored.overBudget, stored.heldTakenIn, stored.rampingTakenIn, stored.overRateTakenIn,
      stored.retriesTakenIn, stored.overBudgetTakenIn, stored.rampUntil?.nanoseconds ?? .min,
      stored.rampHeadStart, stored.record.endedAtMilliseconds ?? .min,
    ]
    guard let hold = stored.record.hold else { return pack(numbers) }
    let texts = [hold.reason, hold.setBy, hold.host].map { text in text.map { Array($0.utf8) } }
    return pack(
      numbers + [
        hold.until.nanoseconds, hold.lengthNanoseconds, hold.setAtMilliseconds,
        hold.sinceMilliseconds, hold.extensions, hold.askedNanoseconds ?? -1,
        hold.isByHand ? 1 : 0, hold.firstLease ?? -1, hold.turnUntil?.nanoseconds ?? -1,
        hold.after,
      ] + texts.map { $0.map { Int64($0.count) } ?? -1 }) + texts.flatMap { $0 ?? [] }
  }

  /// Reads what is known of holds of a breaker in a generation; damage reads as a breaker that was never held.
  static func holds(_ bytes: [UInt8]?, upTo generation: Int64) -> StoredHolds {
    var stored = StoredHolds(generation: generation)
    let all = (numbersWithoutHold + numbersOfHold) * 8
    guard let bytes, bytes.count == numbersWithoutHold * 8 || bytes.count >= all else {
      return stored
    }
    let numbers = unpack(bytes.prefix(all))
    let counts = 0..<Int64.max / 16
    guard numbers[..<3].allSatisfy({ (0...generation).contains($0) }),
      numbers[3..<10].allSatisfy({ counts.contains($0) })
    else { return stored }
    stored.generationOfState = numbers[0]
    stored.record.number = numbers[1]
    stored.record.least = numbers[2]
    stored.record.unnamed = numbers[3]
    (stored.holds, stored.held, stored.ramping) = (numbers[4], numbers[5], numbers[6])
    (stored.overRate, stored.retries, stored.overBudget) = (numbers[7], numbers[8], numbers[9])
    (stored.heldTakenIn, stored.rampingTakenIn) = (numbers[10], numbers[11])
    (stored.overRateTakenIn, stored.retriesTakenIn) = (numbers[12], numbers[13])
    stored.overBudgetTakenIn = numbers[14]
    stored.rampUntil = numbers[15] == .min ? nil : Instant(nanoseconds: numbers[15])
    stored.rampHeadStart = max(0, min(numbers[16], 1))
    stored.record.endedAtMilliseconds = numbers[17] == .min ? nil : numbers[17]
    if numbers.count > numbersWithoutHold {
      stored.record.hold = hold(Array(numbers[numbersWithoutHold...]), bytes.dropFirst(all))
    }
    return stored
  }

  private static func hold(_ numbers: [Int64], _ texts: ArraySlice<UInt8>) -> Hold? {
    guard (0..<Int64.max / 16).contains(numbers[4]) else { return nil }
    let longest = BreakerPolicy.longestDuration.inNanoseconds
    var hold = Hold(
      until: Instant(nanoseconds: numbers[0]), lengthNanoseconds: max(0, min(numbers[1], longest)),
      setAtMilliseconds: numbers[2], isByHand: numbers[6] == 1)
    hold.sinceMilliseconds = numbers[3]
    hold.extensions = numbers[4]
    hold.askedNanoseconds = numbers[5] < 0 ? nil : numbers[5]
    hold.firstLease = numbers[7] < 0 ? nil : numbers[7]
    hold.turnUntil = numbers[8] < 0 ? nil : Instant(nanoseconds: numbers[8])
    var rest = texts
    func text(_ length: Int64) -> String? {
      guard length >= 0, length <= rest.count else { return nil }
      defer { rest = rest.dropFirst(Int(length)) }
      return String(decoding: rest.prefix(Int(length)), as: UTF8.self)
    }
    hold.after = numbers[9]
    hold.reason = text(numbers[10])
    hold.setBy = text(numbers[11])
    hold.host = text(numbers[12])
    return hold
  }
}
