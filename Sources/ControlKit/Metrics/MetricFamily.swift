/// All samples of one metric, which Prometheus requires to be together.
struct MetricFamily<Subject>: Sendable {
  enum Kind: String, Sendable {
    case gauge, counter
  }

  var name: String
  var kind: Kind

  /// One line that says what the metric measures.
  var help: String

  /// Returns the samples of one subject.
  var samples: @Sendable (Subject) -> [Sample]

  init(
    _ kind: Kind, _ name: String, _ help: String,
    samples: @escaping @Sendable (Subject) -> [Sample]
  ) {
    self.kind = kind
    self.name = "shared_breaker_\(name)"
    self.help = help
    self.samples = samples
  }
}

/// One number, with the labels that tell it from others of its family.
struct Sample: Sendable, Hashable {
  struct Label: Sendable, Hashable {
    var name: String
    var value: String
  }

  var labels: [Label]

  /// The number, in digits.
  var value: String

  init(_ value: String, _ labels: KeyValuePairs<String, String> = [:]) {
    self.labels = labels.map { Label(name: $0.key, value: $0.value) }
    self.value = value
  }

  init(_ value: Int64, _ labels: KeyValuePairs<String, String> = [:]) {
    self.init(String(value), labels)
  }

  init(_ isSo: Bool, _ labels: KeyValuePairs<String, String> = [:]) {
    self.init(isSo ? "1" : "0", labels)
  }

  /// Writes a duration in seconds, exact to the nanosecond.
  init(_ duration: Duration, _ labels: KeyValuePairs<String, String> = [:]) {
    let (seconds, attoseconds) = duration.components
    let digits = String(1_000_000_000 + attoseconds / 1_000_000_000).dropFirst()
    let end = digits.lastIndex { $0 != "0" }
    self.init(end.map { "\(seconds).\(digits[...$0])" } ?? String(seconds), labels)
  }
}
