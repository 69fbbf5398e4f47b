/// The subject of a row of the table.
struct Subject {
  var topic: String
  var name: String
  var unit: String
  var comparison: Comparison?
  var goal: Goal?

  /// How one value of the row is measured.
  var samples: String

  init(
    topic: String, name: String, unit: String, comparison: Comparison? = nil, goal: Goal? = nil,
    samples: String
  ) {
    self.topic = topic
    self.name = name
    self.unit = unit
    self.comparison = comparison
    self.goal = goal
    self.samples = samples
  }
}

/// Another row of the same round that a row is measured against.
struct Comparison {
  enum Kind: String {
    /// This value minus the other.
    case difference

    /// This value divided by the other.
    case ratio
  }

  var name: String
  var kind: Kind

  static func over(_ name: String) -> Comparison { Self(name: name, kind: .difference) }

  static func times(_ name: String) -> Comparison { Self(name: name, kind: .ratio) }

  func of(_ value: Double, _ floor: Double) -> Double {
    switch kind {
    case .difference: value - floor
    case .ratio: value / floor
    }
  }
}

/// The goal for the median of a row.
struct Goal {
  enum Side: String {
    case atMost = "<="
    case atLeast = ">="
  }

  var side: Side
  var limit: Double

  /// Whether the goal is for the comparison, and not for the value itself.
  var isOfComparison: Bool

  static func atMost(_ limit: Double) -> Goal {
    Self(side: .atMost, limit: limit, isOfComparison: false)
  }

  static func atLeast(_ limit: Double) -> Goal {
    Self(side: .atLeast, limit: limit, isOfComparison: false)
  }

  /// This goal, for the comparison.
  var compared: Goal { Self(side: side, limit: limit, isOfComparison: true) }

  func isReached(by value: Double) -> Bool {
    switch side {
    case .atMost: value <= limit
    case .atLeast: value >= limit
    }
  }
}

/// The values of one row over all rounds.
struct Series {
  var subject: Subject
  private(set) var values: [Double] = []
  private(set) var compared: [Double] = []

  /// The error that ended the measurements; nil if there was none.
  var trouble: String?

  init(_ subject: Subject) { self.subject = subject }

  mutating func add(_ value: Double, floor: Double?) {
    values.append(value)
    if let comparison = subject.comparison, let floor {
      compared.append(comparison.of(value, floor))
    }
  }

  /// Whether the goal is reached; nil if there is no goal or no value.
  var isGoalReached: Bool? {
    guard let goal = subject.goal,
      let spread = Spread(goal.isOfComparison ? compared : values)
    else { return nil }
    return goal.isReached(by: spread.median)
  }
}
