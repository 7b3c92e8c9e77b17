"""What only a real control plane can show: permissions, request counts, certificates, kills."""
