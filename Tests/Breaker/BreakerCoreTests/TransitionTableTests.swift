@testable import BreakerCore
import Testing

/// The effect of every event in every state under every mode, as a readable table.
///
/// A cell holds the answer and then what happened to the state. With nothing after the answer, the
/// state and the generation stayed the same. With `>O`, `>H` or `>C`, the breaker became open,
/// half-open or closed, the generation rose, and the history records it. `extended` means that the
/// open time of an open breaker was set again, and `sooner` that it was made shorter. In the state
/// `taken` the breaker is due, and probes of an earlier round hold every slot. A mode that has run
/// out behaves like `automatic`, with one more event before all others that says so.
enum EveryCell {
  static let table = """
    mode          state   request         success      failure    permanent  named      ignored  stale    trip       reset  mode   suspicion recovery
    automatic     closed  pass            counted      counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   done>H    no
    automatic     open    reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        sooner
    automatic     due     probe>H         outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    automatic     taken   reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    automatic     half    probe           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    automatic     full    reject          counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    observe       closed  pass            counted      counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   done>H    no
    observe       open    would           outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        sooner
    observe       due     probe>H         outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    observe       taken   would           outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    observe       half    probe           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    observe       full    would           counted>C    counted>O  counted>O  counted>O  counted  outdated done>O     reset  mode   no        no
    forced_open   closed  reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_open   open    reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_open   due     reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_open   taken   reject          outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_open   half    reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_open   full    reject          outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_closed closed  unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_closed open    unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_closed due     unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_closed taken   unjudged        outdated     outdated   outdated   outdated   outdated outdated extended   reset  mode   no        no
    forced_closed half    unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    forced_closed full    unjudged        outdated     outdated   outdated   outdated   outdated outdated done>O     reset  mode   no        no
    """
}

/// One cell of the table: an event in a state under a mode, and what it does.
struct Cell: Sendable, CustomTestStringConvertible {
  /// The breaker as it stands before the event.
  enum Standing: String, CaseIterable {
    case closed, open, due, taken, half, full

    var state: BreakerState {
      switch self {
      case .closed: .closed
      case .open, .due, .taken: .open
      case .half, .full: .halfOpen
      }
    }
  }

  enum Happening: String, CaseIterable {
    case request, success, failure, permanent, named, ignored, stale, trip, reset, mode
    case suspicion, recovery

    var outcome: CallOutcome? {
      switch self {
      case .success: .success
      case .failure, .stale: .failure()
      case .permanent: .permanentFailure()
      case .named: .failure(opensFor: .seconds(60))
      case .ignored: .ignored
      case .request, .trip, .reset, .mode, .suspicion, .recovery: nil
      }
    }
  }

  var mode: BreakerMode
  var hasExpired: Bool
  var standing: Standing
  var happening: Happening

  /// The answer, without what follows the arrow.
  var answer: Substring

  /// The state that the breaker moves to.
  var target: BreakerState?

  var testDescription: String {
    "\(mode.wireName)\(hasExpired ? " (expired)" : ""), \(standing), \(happening)"
  }

  static let all: [Cell] = {
    let lines = EveryCell.table.split(separator: "\n").map { $0.split(separator: " ") }
    let happenings = lines[0].dropFirst(2).compactMap { Happening(rawValue: String($0)) }
    return lines.dropFirst().flatMap { row in
      zip(happenings, row.dropFirst(2)).flatMap { happening, text in
        cells(mode: row[0], standing: row[1], happening, text)
      }
    }
  }()

  private static func cells(
    mode: Substring, standing: Substring, _ happening: Happening, _ text: Substring
  ) -> [Cell] {
    guard let mode = BreakerMode(wireName: String(mode)),
      let standing = Standing(rawValue: String(standing))
    else { return [] }
    let parts = text.split(separator: ">")
    let targets: [Substring: BreakerState] = ["C": .closed, "O": .open, "H": .halfOpen]
    let target = parts.count > 1 ? targets[parts[1]] : nil
    func cell(_ mode: BreakerMode, expired: Bool) -> Cell {
      Cell(
        mode: mode, hasExpired: expired, standing: standing, happening: happening,
        answer: parts[0], target: target)
    }
    guard mode == .automatic else { return [cell(mode, expired: false)] }
    let others = BreakerMode.allCases.filter { $0 != .automatic }
    return [cell(.automatic, expired: false)] + others.map { cell($0, expired: true) }
  }
}

@Suite struct TransitionTableTests {
  @Test func `the transition table has every cell`() {
    let states = Cell.Standing.allCases.count
    let modes = BreakerMode.allCases.count + BreakerMode.allCases.count - 1
    #expect(Cell.all.count == states * modes * Cell.Happening.allCases.count)
  }

  @Test(arguments: Cell.all)
  func `every event in every state and mode does what the transition table says`(cell: Cell) {
    var (bench, permit) = Self.breaker(for: cell)
    let before = bench.record
    bench.events = []
    let answer = Self.answer(to: cell.happening, permit: permit, in: &bench)
    #expect(answer == (cell.answer == "extended" ? "done" : cell.answer))
    let target = cell.answer == "reset" ? .closed : cell.target
    #expect(bench.state == target ?? cell.standing.state)
    let isNewGeneration = cell.target != nil || cell.answer == "reset"
    #expect(bench.record.generation == before.generation + (isNewGeneration ? 1 : 0))
    #expect(bench.events.map(\.arrow) == Self.arrows(of: cell))
    #expect(bench.record.totals == Self.totals(after: cell, from: before.totals))
  }

  @Test(arguments: Cell.all.filter { $0.happening == .request })
  func `an assessment foretells the answer to a request or leaves a probe undecided`(cell: Cell) {
    var (bench, _) = Self.breaker(for: cell)
    let assessment = bench.assess()
    switch (bench.request(), assessment) {
    case (.permitted(let grant), .permitted(let foretold)): #expect(grant == foretold)
    case (.rejected(let rejection), .rejected(let foretold)): #expect(rejection == foretold)
    case (.permitted(let grant), .undecided): #expect(grant.kind == .probe)
    case (let verdict, _): Issue.record("\(assessment) came before \(verdict)")
    }
  }

  @Test(arguments: Cell.all.filter { $0.happening.outcome != nil && !$0.hasExpired })
  func `a report that is only counted changes only totals and the last failure time`(cell: Cell) {
    var (bench, permit) = Self.breaker(for: cell)
    guard let outcome = cell.happening.outcome else { return }
    let before = bench.record
    let isOnlyCounted = before.isOnlyCounted(
      outcome, for: permit, elapsed: nil, at: bench.now.boot, policy: bench.policy,
      isWindowElsewhere: false)
    bench.report(outcome, for: permit)
    var after = bench.record
    after.totals = before.totals
    after.lastFailureAtMilliseconds = before.lastFailureAtMilliseconds
    if isOnlyCounted { #expect(after == before) }
    if after == before, permit.kind == .normal { #expect(isOnlyCounted) }
  }

  /// The breaker before the event, and the permit whose outcome is reported to it.
  static func breaker(for cell: Cell) -> (Bench, PermitGrant) {
    var bench = Bench(
      BreakerPolicy(
        maxFailures: 1, probes: 2, probeTimeout: .seconds(90), fleetQuorum: .hosts(3),
        fleetSpread: .nanoseconds(1)))
    bench.jitter = 0
    let stale = bench.permit()
    if cell.standing.state != .closed {
      // An open time that an operator has set would not be made shorter.
      bench.call(.failure())
      bench.becomeDue()
    }
    if cell.standing == .open { bench.advance(by: .nanoseconds(-2)) }
    var permit = PermitGrant(kind: .normal, generation: bench.record.generation)
    if cell.standing.state == .halfOpen { permit = bench.permit() ?? permit }
    if cell.standing == .full { _ = bench.permit() }
    if cell.standing == .taken {
      permit = bench.permit() ?? permit
      _ = bench.permit()
      bench.trip()
      bench.becomeDue()
    }
    if cell.happening == .stale {
      bench.record.generation += 1
      bench.record.generationOfState = bench.record.generation
      permit = stale ?? permit
    }
    if cell.mode != .automatic {
      bench.set(cell.mode, for: cell.hasExpired ? .zero : .seconds(9))
    }
    return (bench, permit)
  }

  static func answer(
    to happening: Cell.Happening, permit: PermitGrant, in bench: inout Bench
  ) -> String {
    if let outcome = happening.outcome {
      return bench.report(outcome, for: permit).map { "\($0)" } ?? "nothing"
    }
    switch happening {
    case .trip:
      bench.trip()
      return "done"
    case .reset: bench.reset()
    case .mode: bench.set(.observe)
    case .suspicion: return bench.suspect() ? "done" : "no"
    case .recovery: return bench.recover() ? "sooner" : "no"
    case .request, .success, .failure, .permanent, .named, .ignored, .stale:
      return name(of: bench.request(), in: bench.record)
    }
    return happening.rawValue
  }

  static func name(of verdict: Decision<PermitGrant>, in record: BreakerRecord) -> String {
    switch verdict {
    case .rejected(let rejection): rejection.state == record.state ? "reject" : "wrong state"
    case .permitted(let grant) where grant.kind == .probe: "probe"
    case .permitted(let grant) where grant.wouldReject: "would"
    case .permitted(let grant) where grant.generation == PermitGrant.unjudged: "unjudged"
    case .permitted(let grant): grant.generation == record.generation ? "pass" : "wrong generation"
    }
  }

  static func arrows(of cell: Cell) -> [String] {
    let from = cell.standing.state.wireName
    var arrows = cell.hasExpired ? ["mode:\(cell.mode.wireName)>automatic"] : []
    if let target = cell.target {
      let kind = cell.happening == .suspicion ? "suspicion:" : ""
      arrows.append("\(kind)\(from)>\(target.wireName)")
    }
    switch cell.answer {
    case "extended": arrows.append("extension:open>extended")
    case "sooner": arrows.append("recovery:open>due")
    case "reset": arrows.append("reset:\(from)>closed")
    case "mode": arrows.append("mode:\(cell.hasExpired ? "automatic" : cell.mode.wireName)>observe")
    default: break
    }
    return arrows
  }

  static func totals(after cell: Cell, from before: BreakerTotals) -> BreakerTotals {
    var totals = before
    if cell.answer == "reject" { totals.rejections += 1 }
    if cell.answer == "would" { totals.wouldReject += 1 }
    switch cell.happening.outcome {
    case .success: totals.successes += 1
    case .failure: totals.failures += 1
    case .ignored, .hold: totals.ignored += 1
    case nil: break
    }
    return totals
  }
}
