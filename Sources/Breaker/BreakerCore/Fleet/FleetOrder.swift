/// A command as a host keeps it: with the moment at which it was given, on this host's clocks.
package struct FleetOrder: Sendable, Hashable {
  /// The command; its age is only known at a moment.
  private let command: FleetCommand
  package let givenAt: Moment

  /// Takes a command whose age was right at a moment.
  package init(_ command: FleetCommand, at now: Moment) {
    let age = max(.zero, command.age).inNanoseconds
    self.init(command, givenAt: now.at(now.boot.advanced(by: -age)))
  }

  package init(_ command: FleetCommand, givenAt: Moment) {
    var command = command
    command.age = .zero
    command.reason = command.reason.map { OutsideText.cut($0) }
    let giver = command.giver
    command.author = giver.said
    command.verifiedUser = giver.verifiedUser
    command.isProven = giver.isProven
    self.command = command
    self.givenAt = givenAt
  }

  package var name: String { command.name }
  package var action: FleetCommand.Action { command.action }
  package var reason: String? { command.reason }
  package var author: String { command.author }
  package var host: String { command.host }
  package var stamp: Int64 { command.stamp }
  package var seals: [String: String] { command.seals }
  package var giver: FleetGiver { command.giver }

  package func age(at now: Moment) -> Duration {
    .nanoseconds(max(0, now.boot.since(givenAt.boot)))
  }

  /// The command as it is told to others at a moment.
  package func command(at now: Moment) -> FleetCommand {
    var command = command
    command.age = age(at: now)
    return command
  }

  /// The order on the clocks of a later boot; the wall clock tells how old it is.
  package func carriedOver(to now: Moment) -> FleetOrder {
    let passed = max(0, now.wallMilliseconds.subtractingSaturating(givenAt.wallMilliseconds))
    let given = now.boot.advanced(by: -passed.multipliedSaturating(by: 1_000_000))
    return FleetOrder(
      command, givenAt: Moment(boot: given, wallMilliseconds: givenAt.wallMilliseconds))
  }

  /// The part of the command that is about an aspect.
  func only(_ aspect: FleetAspect) -> FleetOrder {
    var part = command
    part.action = action.only(aspect)
    part.seals = seals.filter { $0.key == aspect.text }
    return FleetOrder(part, givenAt: givenAt)
  }

  /// This command, with the seals and the verified user of another copy of it.
  ///
  /// Both are taken together, because the seals prove the user. Without seals, the first user counts.
  ///
  /// - Returns: Nil if the other copy knows no more than this one.
  func resealed(by other: FleetOrder) -> FleetOrder? {
    guard isPart(of: other), action == other.action, author == other.author,
      reason == other.reason
    else { return nil }
    let hasSeals = !other.seals.isEmpty && other.seals != seals
    let hasUser = seals.isEmpty && giver.verifiedUser == nil && other.giver.verifiedUser != nil
    guard hasSeals || hasUser else { return nil }
    var command = command
    command.seals = other.seals
    command.verifiedUser = other.giver.verifiedUser
    command.isProven = other.giver.isProven
    return FleetOrder(command, givenAt: givenAt)
  }

  /// This command with another stamp, and another time on the wall clock.
  func stamped(_ stamp: Int64, givenAt wallMilliseconds: Int64) -> FleetOrder {
    var command = command
    command.stamp = stamp
    return FleetOrder(
      command, givenAt: Moment(boot: givenAt.boot, wallMilliseconds: wallMilliseconds))
  }

  /// Whether it is a part of another command, or the whole of it.
  package func isPart(of other: FleetOrder) -> Bool {
    stamp == other.stamp && host == other.host && name.utf8.elementsEqual(other.name.utf8)
  }

  /// Whether it is later than another one; all hosts give the same answer.
  package func isLater(than other: FleetOrder) -> Bool { command.isLater(than: other.command) }
}

extension FleetOrder {
  /// Why no host can use the command; nil if hosts can.
  package var complaint: String? {
    if let complaint = OutsideText.complaint(aboutName: name) { return "its name: \(complaint)" }
    if let complaint = OutsideText.complaint(aboutName: host) { return "its host: \(complaint)" }
    guard (1...FleetCommand.highestStamp).contains(stamp) else {
      return "its stamp \(stamp) is not from 1 to \(FleetCommand.highestStamp)"
    }
    guard case .policy(let values, let keys) = action else { return nil }
    if values.isEmpty, keys.isEmpty { return "it sets and unsets no value" }
    do throws(PolicyError) {
      var policy = BreakerPolicy()
      for (key, value) in values { try policy.set(key, to: value) }
      return nil
    } catch {
      return error.description
    }
  }

  /// Whether a host that lacks the breaker has to create it.
  package var makesBreaker: Bool {
    switch action {
    case .trip, .reset, .endHold, .force(.automatic, _): false
    case .force: true
    case .policy(let values, _): !values.isEmpty
    }
  }

  /// Whether the time of a mode is over.
  package func isModeOver(at now: Moment) -> Bool {
    guard case .force(let mode, let time?) = action, mode != .automatic else { return false }
    return age(at: now) >= time
  }

  /// Whether no host needs this command any more once it has a later one.
  package func isOvertaken(by later: FleetOrder) -> Bool {
    later.isLater(than: self) && Set(later.action.aspects).isSuperset(of: action.aspects)
  }

  /// Whether a command to the state is so old that hosts forget it.
  package func isForgotten(at now: Moment) -> Bool { command(at: now).isForgotten }
}

/// The latest command that a host knows about one aspect of a breaker.
package struct FleetRegister: Sendable, Hashable {
  package var order: FleetOrder

  /// Whether the breaker follows it.
  ///
  /// A value of a policy may be valid only together with another one that has yet to arrive.
  package var isInForce: Bool

  package init(_ order: FleetOrder, isInForce: Bool) {
    self.order = order
    self.isInForce = isInForce
  }

  /// The one aspect that it is about.
  package var aspect: FleetAspect? { order.action.aspects.first }
}

/// Repairs the stamps that a host gave while its clock was far ahead, and that no other host accepts.
///
/// A command of this host gets the stamp that it should have had. The clock that counts from the
/// boot tells when it was given, whatever the wall clock said then. It stays later than every
/// command that was given before: the host may have known that one, and have kept only its own,
/// later one. A command of another host with such a stamp is forgotten, because no other host
/// follows it.
package struct FleetCorrection: Sendable, Hashable {
  private struct Stamp: Sendable, Hashable {
    var stamp: Int64
    var wallMilliseconds: Int64
  }

  private var stamps: [Int64: Stamp] = [:]

  /// The highest stamp that any command has after the repair, also of the fleet; 0 if none is left.
  package private(set) var highest: Int64

  /// - Parameters:
  ///   - orders: The commands that the host remembers, and those that it has not told the others yet.
  ///   - others: The commands that the fleet remembers.
  ///   - latest: The highest stamp that a command can have.
  ///   - host: The host itself.
  ///   - now: The time, on clocks that are right by now.
  package init(
    _ orders: some Sequence<FleetOrder>, knowing others: some Sequence<FleetOrder>,
    above latest: Int64, of host: String, at now: Moment
  ) {
    highest = 0
    var wrong: [FleetOrder] = []
    for order in orders {
      if order.stamp <= latest {
        highest = max(highest, order.stamp)
      } else if order.host == host {
        wrong.append(order)
      }
    }
    var earlier = ArraySlice(
      others.filter { $0.stamp <= latest }.sorted { $0.age(at: now) > $1.age(at: now) })
    for order in wrong.sorted(by: { $0.stamp < $1.stamp }) where stamps[order.stamp] == nil {
      while let other = earlier.first, other.age(at: now) >= order.age(at: now) {
        highest = max(highest, other.stamp)
        earlier.removeFirst()
      }
      let passed = order.age(at: now).inNanoseconds / 1_000_000
      let given = min(
        order.givenAt.wallMilliseconds, now.wallMilliseconds.subtractingSaturating(passed))
      highest = max(highest + 1, given)
      stamps[order.stamp] = Stamp(stamp: highest, wallMilliseconds: given)
    }
    // The next command of this host is later than all that it has read.
    highest = earlier.reduce(highest) { max($0, $1.stamp) }
  }

  /// A command with a right stamp; nil if it is to be forgotten.
  package func corrected(_ order: FleetOrder) -> FleetOrder? {
    stamps[order.stamp].map {
      order.stamped($0.stamp, givenAt: $0.wallMilliseconds)
    }
  }
}
