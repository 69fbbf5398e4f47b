import SharedBreaker

/// The kind of value that an argument or option takes.
enum ValueKind: Sendable, Hashable {
  case text

  /// A message of a person or a program, which can be any text.
  case remark

  /// A command line for a shell.
  case shellLine
  case name
  case pattern
  case path
  case token
  case duration
  case count

  /// A count that may be 0.
  case countFromZero
  case rate
  case factor
  case pid
  case exitCodes
  case fileMode
  case permissions
  case group
  case policy(PolicyKey)
  case policySetting
  case policyKey
  case choice([String])

  /// A command or a topic of help.
  case topic

  /// The words of another program's command line, which are passed on unchanged.
  case commandLine

  /// The placeholder for the value in help.
  var placeholder: String {
    switch self {
    case .text, .remark: "TEXT"
    case .shellLine: "CMD"
    case .name, .pattern: "NAME"
    case .path: "PATH"
    case .token: "TOKEN"
    case .duration: "D"
    case .count, .countFromZero: "N"
    case .rate: "P"
    case .factor: "X"
    case .pid: "PID"
    case .exitCodes: "CODES"
    case .fileMode, .permissions: "MODE"
    case .group: "GROUP"
    case .policy(let key): key.value.placeholder
    case .policySetting: "K=V"
    case .policyKey: "K"
    case .choice(let words): words.joined(separator: "|")
    case .topic: "TOPIC"
    case .commandLine: "COMMAND"
    }
  }

  /// What a valid value looks like, for error messages.
  var form: String {
    switch self {
    case .text, .remark, .topic, .shellLine, .pattern, .commandLine: "use text"
    case .path: "use the path of a file"
    case .group: "use the name or number of one of its groups"
    case .name: NameRule.remedy
    case .token: "use the text that 'cbctl acquire' printed"
    case .duration: "use a time such as 250ms, 30s, 5m, 2h or 1d"
    case .count, .countFromZero: "use a whole number such as 10"
    case .rate: PolicyKey.Value.rate.form
    case .factor: PolicyKey.Value.factor.form
    case .pid: "use the number of a process, such as $$"
    case .exitCodes: "use codes from 0 to 255 such as 3,4,10-12"
    case .fileMode: "use an octal mode such as 600, 660 or 666"
    case .permissions: "use an octal mode such as 600, 640 or 644"
    case .policy(let key): key.value.form
    case .policySetting: "use KEY=VALUE, as in open-for=1m"
    case .policyKey: "run 'cbctl help policy-words' for the words of a policy"
    case .choice(let words): "use \(words.joined(separator: ", "))"
    }
  }
}

extension PolicyKey.Value {
  var placeholder: String {
    switch self {
    case .count: "N"
    case .duration: "D"
    case .rate: "P"
    case .factor: "X"
    case .countOrRate: "N|P"
    @unknown default: "VALUE"
    }
  }

  var form: String {
    switch self {
    case .count: "use a whole number such as 5"
    case .duration: ValueKind.duration.form
    case .rate: "use a rate such as 50%"
    case .factor: "use a factor such as 1.5"
    case .countOrRate: "use a whole number such as 3, or a rate such as 30%"
    @unknown default: "run 'cbctl help policy-words' for the words of a policy"
    }
  }
}
