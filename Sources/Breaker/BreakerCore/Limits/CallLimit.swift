/// How much a call takes of the limit of its breaker, and when it goes before others.
@frozen @usableFromInline package struct CallClaim: Sendable, Hashable {
  /// How many units of the limit it takes; less than 1 is 1.
  @usableFromInline package var units: Int
  @usableFromInline package var priority: CallPriority

  /// Whether the call needs no room of its own: it is inside of another one of the same breaker, or no process could
  /// give its room back.
  package var needsNoRoom = false

  package init(units: Int = 1, priority: CallPriority = .ordinary) {
    self.units = units
    self.priority = priority
  }

  /// Whether it takes one unit and may use the whole limit, as most calls do.
  @inlinable package var isOneOrdinaryUnit: Bool {
    // Not `==`, which the compiler calls through a table in other modules.
    if case .ordinary = priority { units <= 1 } else { false }
  }
}

/// Which calls go first while there is not room for all.
@frozen @usableFromInline package enum CallPriority: Sendable, Hashable, CaseIterable {
  case ordinary

  /// Work that can wait. It never takes what is reserved for ordinary calls.
  case background
}

/// How many units calls have under way.
package struct SlotUsage: Sendable, Hashable {
  package var ordinary: Int
  package var background: Int

  package init(ordinary: Int = 0, background: Int = 0) {
    self.ordinary = ordinary
    self.background = background
  }

  package var total: Int { ordinary + background }

  package subscript(priority: CallPriority) -> Int {
    get {
      switch priority {
      case .ordinary: ordinary
      case .background: background
      }
    }
    set {
      switch priority {
      case .ordinary: ordinary = newValue
      case .background: background = newValue
      }
    }
  }
}

/// How many units of work may be under way at once on the whole host.
package struct CallLimit: Sendable, Hashable {
  package var units: Int

  /// How many of the units only ordinary calls may take; fewer than `units`.
  package var reserved: Int

  package init(_ units: Int, reserved: Int = 0) {
    self.units = units
    self.reserved = reserved
  }

  /// The most units that calls of a priority may have under way together.
  package func most(_ priority: CallPriority) -> Int {
    switch priority {
    case .ordinary: units
    case .background: units - reserved
    }
  }

  /// How many units a call takes.
  ///
  /// A call that is heavier than all that it may take takes just that: if it never got any, an operator
  /// who lowers the limit would shut it out for good.
  package func weight(of claim: CallClaim) -> Int {
    max(1, min(claim.units, most(claim.priority)))
  }

  /// Whether there is room for a call beside those under way.
  ///
  /// After the limit was lowered, there may be more under way than it allows; then there is no room.
  package func hasRoom(for claim: CallClaim, beside usage: SlotUsage) -> Bool {
    let weight = weight(of: claim)
    return usage.total + weight <= units
      && usage[claim.priority] + weight <= most(claim.priority)
  }
}

/// The place of a caller that waits for room: the order in which waiting callers are served.
package struct WaitingPlace: Sendable, Hashable, Comparable {
  package var priority: CallPriority

  /// The order of arrival.
  package var ticket: Int64

  package init(_ priority: CallPriority, ticket: Int64) {
    self.priority = priority
    self.ticket = ticket
  }

  /// Whether a caller is served first: by priority, and then in the order of arrival, so that no
  /// caller overtakes a heavy call that waits for several units.
  package static func < (left: WaitingPlace, right: WaitingPlace) -> Bool {
    switch (left.priority, right.priority) {
    case (.ordinary, .background): true
    case (.background, .ordinary): false
    case (.ordinary, .ordinary), (.background, .background): left.ticket < right.ticket
    }
  }
}
