"""What runs beside a framework: trainers, what they share, and the agent of a pod."""
