/// Remembers the commands that a host has seen for one breaker, and decides which of two is later.
///
/// Hosts that have had the same commands have the same registers, in whatever order and however
/// often the commands came.
package struct FleetLedger: Sendable, Hashable {
  /// The highest stamp that the host has seen, on a command to any breaker.
  package var stamp: Int64
  package var registers: [FleetAspect: FleetRegister]

  package init(stamp: Int64 = 0, registers: [FleetAspect: FleetRegister] = [:]) {
    self.stamp = stamp
    self.registers = registers
  }

  /// The stamp of the next command of this host; nil if there is no higher one.
  ///
  /// It follows the wall clock, so that a host that was out of touch for a while still gives later
  /// commands than those given before. It is always higher than any stamp that was seen, so that a
  /// host whose clock is behind can overrule every command that it knows.
  package func nextStamp(at now: Moment) -> Int64? {
    guard stamp < FleetCommand.highestStamp else { return nil }
    return min(max(stamp, 0, now.wallMilliseconds - 1) + 1, FleetCommand.highestStamp)
  }

  /// Notes a command of this host, which has been carried out.
  package mutating func gave(_ order: FleetOrder) { _ = take(order, isInForce: true) }

  /// Notes a command that came from elsewhere.
  ///
  /// - Returns: The aspects about which it is the latest command; the breaker has yet to follow it.
  package mutating func heard(_ order: FleetOrder) -> [FleetAspect] {
    take(order, isInForce: false)
  }

  private mutating func take(_ order: FleetOrder, isInForce: Bool) -> [FleetAspect] {
    stamp = max(stamp, order.stamp)
    let news = order.action.aspects.filter { aspect in
      registers[aspect].map { order.isLater(than: $0.order) } ?? true
    }
    for aspect in news {
      registers[aspect] = FleetRegister(order.only(aspect), isInForce: isInForce)
    }
    // Its host signs a command again when the fleet gets another key.
    for aspect in order.action.aspects {
      guard let order = registers[aspect]?.order.resealed(by: order.only(aspect)) else { continue }
      registers[aspect]?.order = order
    }
    return news
  }

  /// Whether part of a command has yet to take effect on the breaker.
  package func isWaiting(for order: FleetOrder) -> Bool {
    order.action.aspects.contains { aspect in
      registers[aspect].map { !$0.isInForce && $0.order == order.only(aspect) } ?? false
    }
  }

  /// Notes whether the breaker follows the commands about some aspects now.
  package mutating func note(_ isInForce: Bool, _ aspects: some Sequence<FleetAspect>) {
    for aspect in aspects { registers[aspect]?.isInForce = isInForce }
  }
}

/// Following the fleet's commands to the policy of a breaker.
extension FleetLedger {
  /// Applies the fleet's values to the words of a policy, as far as the policy remains valid.
  ///
  /// Some values are valid only together, as `failures` and `within` are. The other one may have yet
  /// to arrive, or may be missing from what this host's code declares. A value that does not fit
  /// waits for the next command. If values never fit, because two hosts gave commands at the same
  /// time, every host follows the same ones: later commands take precedence.
  ///
  /// - Parameters:
  ///   - words: The words of the policy.
  ///   - reason: Why, for the history.
  ///   - now: The time.
  /// - Returns: Whether the words have changed.
  package mutating func lead(
    _ words: inout AgreedWords, because reason: String, at now: Moment
  ) -> Step<Bool> {
    let aspects = registers.keys.filter(\.isPolicy)
    let waiting = aspects.filter { registers[$0]?.isInForce == false }
    if let step = apply(waiting, to: &words, because: reason, at: now) {
      note(true, waiting)
      return step
    }
    let own = aspectsOfThisHost(in: words)
    let fitting = fittingAspects(over: words, without: own, at: now)
    let others = aspects.filter { !fitting.contains($0) && !own.contains($0) }
    guard let step = apply(fitting, without: others, to: &words, because: reason, at: now) else {
      // This host's own values are not valid without the fleet's.
      return Step(answer: false, events: [])
    }
    note(true, fitting)
    note(false, others)
    return step
  }

  /// The aspects that an operator has set differently since, on this host alone.
  private func aspectsOfThisHost(in words: AgreedWords) -> Set<FleetAspect> {
    let values = AgreedPolicy(words).operatorValues
    var own: Set<FleetAspect> = []
    for (aspect, register) in registers where register.isInForce {
      if case .policy(let key) = aspect, case .policy(let set, _) = register.order.action,
        values[key] != set[key]
      {
        own.insert(aspect)
      }
    }
    return own
  }

  /// The policy aspects that each command set, with the latest command first.
  private var commands: [[FleetAspect]] {
    var commands: [(order: FleetOrder, aspects: [FleetAspect])] = []
    for (aspect, register) in registers where aspect.isPolicy {
      let order = register.order
      let index = commands.firstIndex {
        $0.order.stamp == order.stamp && $0.order.host == order.host
      }
      if let index {
        commands[index].aspects.append(aspect)
      } else {
        commands.append((order, [aspect]))
      }
    }
    return commands.sorted { $0.order.isLater(than: $1.order) }.map(\.aspects)
  }

  /// The aspects that are valid together, tried command by command, the latest first.
  private func fittingAspects(
    over words: AgreedWords, without own: Set<FleetAspect>, at now: Moment
  ) -> [FleetAspect] {
    let commands = commands.map { $0.filter { !own.contains($0) } }
    var fitting: [FleetAspect] = []
    for aspects in commands {
      let candidate = fitting + aspects
      let others = commands.joined().filter { !candidate.contains($0) }
      var trial = words
      if apply(candidate, without: others, to: &trial, because: "", at: now) != nil {
        fitting = candidate
      }
    }
    return fitting
  }

  /// Applies the fleet's values of some aspects, and removes those of others.
  ///
  /// - Returns: Whether the words have changed; nil if the policy would not be valid.
  private func apply(
    _ aspects: [FleetAspect], without others: [FleetAspect] = [], to words: inout AgreedWords,
    because reason: String, at now: Moment
  ) -> Step<Bool>? {
    var values: [PolicyKey: String] = [:]
    var keys: Set<PolicyKey> = []
    for case .policy(let key) in others { keys.insert(key) }
    for aspect in aspects {
      if case .policy(let set, let unset) = registers[aspect]?.order.action {
        for (key, value) in set { values[key] = value }
        keys.formUnion(unset)
      }
    }
    let before = words
    do throws(PolicyError) {
      let step = try words.overridden(set: values, unset: keys, because: reason, at: now)
      return Step(answer: words != before, events: step.events)
    } catch {
      return nil
    }
  }
}
